/* Preloaded into the processes of Open MPI, which ask again and again whether something has come
 * and never sleep. In virtual time the clock stands still as long as anybody is busy, so whoever
 * asks in vain must let time pass: a poll without patience waits for its descriptors, a
 * millisecond at most, and a yield sleeps for a microsecond. What comes is seen at once by the
 * poll, as by one that asks again and again, and a microsecond late after a yield. */

#define _GNU_SOURCE
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

static const struct timespec MICROSECOND = {0, 1000}, PATIENCE = {0, 1000000};

/* By default the kernel may let a sleep last 50 us longer; threads inherit this. */
__attribute__((constructor)) static void wake_on_time(void)
{
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
}

EXPORT int sched_yield(void)
{
    nanosleep(&MICROSECOND, NULL);
    return 0;
}

EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    const struct timespec asked = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
    const struct timespec *given = timeout_ms == 0 ? &PATIENCE : timeout_ms < 0 ? NULL : &asked;
    return ppoll(fds, count, given, NULL);
}

EXPORT int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout_ms)
{
    return epoll_pwait(epoll, events, most, timeout_ms == 0 ? 1 : timeout_ms, NULL);
}

EXPORT int select(int count, fd_set *in, fd_set *out, fd_set *err, struct timeval *timeout)
{
    struct timespec asked;
    if (timeout == NULL)
        return pselect(count, in, out, err, NULL, NULL);
    asked.tv_sec = timeout->tv_sec;
    asked.tv_nsec = timeout->tv_usec * 1000L;
    if (asked.tv_sec == 0 && asked.tv_nsec == 0)
        asked = PATIENCE;
    return pselect(count, in, out, err, &asked, NULL);
}
