/* Preloaded into the processes of Open MPI, which ask again and again whether something has come
 * and never sleep. In virtual time the clock stands still as long as anybody is busy, so whoever
 * asks in vain must let time pass: a yield sleeps for a microsecond, and who has polled many
 * times without patience and found nothing waits for his descriptors, a millisecond at most.
 * What comes then is seen at once, as by one that goes on asking. The first polls cost nothing:
 * between them the caller may find work that no descriptor tells of. */

#define _GNU_SOURCE
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum { FREE_POLLS = 32, PATIENCE_MS = 1 };

static _Thread_local int in_vain;

/* By default the kernel may let a sleep last 50 us longer; threads inherit this. */
__attribute__((constructor)) static void wake_on_time(void)
{
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
}

static int patience_ms(int asked_ms)
{
    return asked_ms == 0 && in_vain >= FREE_POLLS ? PATIENCE_MS : asked_ms;
}

static int counted(int found)
{
    in_vain = found == 0 ? in_vain + 1 : 0;
    return found;
}

EXPORT int sched_yield(void)
{
    const struct timespec microsecond = {0, 1000};
    nanosleep(&microsecond, NULL);
    return 0;
}

EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    const int ms = patience_ms(timeout_ms);
    const struct timespec timeout = {ms / 1000, ms % 1000 * 1000000L};
    return counted(ppoll(fds, count, ms < 0 ? NULL : &timeout, NULL));
}

EXPORT int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout_ms)
{
    return counted(epoll_pwait(epoll, events, most, patience_ms(timeout_ms), NULL));
}
