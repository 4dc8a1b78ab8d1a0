/* Receives, takes and sends in one loop, so that Python runs only when something else is due. */
#define _GNU_SOURCE
#include "cq.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>

enum { UDP_LEVEL = 17, GRO_OPTION = 104, OVERFLOW_OPTION = 40 };

static int64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* Send what the ring holds and was not sent yet; the kernel cuts each burst into datagrams.
 *
 * A burst ends with the ring, and with a short datagram. */
static int send_pending(struct cq_engine *e, struct cq_sockets *s, int64_t now_ns)
{
    while (e->sent_seq < e->next_seq) {
        uint32_t first = (uint32_t)(e->sent_seq % e->ring_rows), count = 0, bytes = 0, size;
        do {
            size = e->sizes[first + count];
            e->sent_ns[first + count] = now_ns;
            bytes += size;
            count++;
        } while (size == e->row_bytes && count < s->most_segments && first + count < e->ring_rows
                 && e->sent_seq + count < e->next_seq);
        struct sockaddr_in to = {
            .sin_family = AF_INET, .sin_port = htons((uint16_t)s->port),
            .sin_addr.s_addr = htonl(s->ip),
        };
        if (sendto(s->out, e->ring + (size_t)first * e->row_bytes, bytes, 0,
                   (struct sockaddr *)&to, sizeof to) != (ssize_t)bytes) {
            s->error = errno;
            return CQ_FAILED;
        }
        e->sent_seq += count;
    }
    return CQ_DONE;
}

/* Receive one buffer; its length, or -1 if nothing came in time. */
static ssize_t receive(struct cq_sockets *s, uint32_t *segment, int *cut)
{
    char control[CMSG_SPACE(sizeof(int)) * 2];
    struct iovec into = {.iov_base = s->buffer, .iov_len = CQ_BUFFER_BYTES};
    struct msghdr message = {
        .msg_iov = &into, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control,
    };
    ssize_t length = recvmsg(s->in, &message, 0);
    if (length < 0)
        return -1;
    *segment = length ? (uint32_t)length : 1;
    *cut = message.msg_flags & MSG_TRUNC;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level == UDP_LEVEL && c->cmsg_type == GRO_OPTION)
            *segment = (uint32_t)*(int *)CMSG_DATA(c);
        else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == OVERFLOW_OPTION)
            s->overflow = *(uint32_t *)CMSG_DATA(c);
    }
    return length;
}

/* Finish what a call began: send whenever the ring is full, and at the end. */
static int finish(struct cq_engine *e, struct cq_sockets *s, int result, int64_t now_ns)
{
    while (result == CQ_RING_FULL) {
        if (send_pending(e, s, now_ns) == CQ_FAILED)
            return CQ_FAILED;
        result = cq_resume(e, s->buffer, now_ns);
    }
    if (result != CQ_DONE)
        return result;
    if (cq_next_timeout(e) <= now_ns)
        while ((result = cq_expire(e, now_ns)) == CQ_RING_FULL)
            if (send_pending(e, s, now_ns) == CQ_FAILED)
                return CQ_FAILED;
    if (result != CQ_DONE)
        return result;
    cq_end_burst(e, now_ns);
    return send_pending(e, s, now_ns);
}

/* Serve until `until_ns`, or until Python has to do something: see `enum cq_result`. */
int cq_serve(struct cq_engine *e, struct cq_sockets *s, int64_t until_ns)
{
    int64_t now_ns = clock_ns();
    int result = finish(e, s, cq_resume(e, s->buffer, now_ns), now_ns);
    while (result == CQ_DONE && now_ns < until_ns) {
        uint32_t segment;
        int cut;
        ssize_t length = receive(s, &segment, &cut);
        if (length < 0) {
            s->error = errno;
            return errno == EAGAIN || errno == EINTR ? CQ_IDLE : CQ_FAILED;
        }
        now_ns = clock_ns();
        s->buffers++;
        if (cut)
            e->rejects[CQ_TRUNCATED]++;
        else
            result = finish(e, s, cq_take(e, s->buffer, (uint32_t)length, segment, now_ns), now_ns);
    }
    return result;
}
