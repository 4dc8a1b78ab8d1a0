/* Preloaded into the processes of Open MPI, which ask again and again whether something has come
 * and never sleep. In virtual time the clock stands still as long as anybody is busy, so whoever
 * asks in vain must let time pass: a poll without patience waits for its descriptors, for a
 * microsecond, and a yield sleeps for one. What is ready is reported at once. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

static const struct timespec MICROSECOND = {0, 1000};

EXPORT int sched_yield(void)
{
    nanosleep(&MICROSECOND, NULL);
    return 0;
}

EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    struct timespec patience = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
    if (timeout_ms < 0)
        return ppoll(fds, count, NULL, NULL);
    return ppoll(fds, count, timeout_ms ? &patience : &MICROSECOND, NULL);
}

EXPORT int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout_ms)
{
    int found = epoll_pwait(epoll, events, most, timeout_ms, NULL);
    if (found == 0 && timeout_ms == 0)
        return epoll_pwait2(epoll, events, most, &MICROSECOND, NULL);
    return found;
}

EXPORT int select(int count, fd_set *in, fd_set *out, fd_set *err, struct timeval *timeout)
{
    struct timespec patience;
    if (timeout == NULL)
        return pselect(count, in, out, err, NULL, NULL);
    patience.tv_sec = timeout->tv_sec;
    patience.tv_nsec = timeout->tv_usec * 1000L;
    if (patience.tv_sec == 0 && patience.tv_nsec == 0)
        patience = MICROSECOND;
    return pselect(count, in, out, err, &patience, NULL);
}
