/* Receives, takes and sends in one loop, so that Python runs only when something else is due. */
#define _GNU_SOURCE
#include "cq.h"
#include "wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { UDP_LEVEL = 17, GRO_OPTION = 104, OVERFLOW_OPTION = 40 };

static int64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void count_sent(struct cq_engine *e, const uint8_t *row, uint32_t size)
{
    struct cq_round *round = cq_live_round(e, get32(row + AT_ROUND));
    if (round) { /* what is sent here is sent as long as its round is live */
        round->sent_datagrams++;
        round->sent_bytes += size + CQ_FRAME_BYTES;
    }
}

/* Send what the ring holds and was not sent yet; the kernel cuts each burst into datagrams.
 *
 * A burst ends with the ring, and with a short datagram. */
static void send_pending(struct cq_engine *e, struct cq_sockets *s)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)s->port),
        .sin_addr.s_addr = htonl(s->ip),
    };
    while (e->sent_seq < e->next_seq && !s->error) {
        uint32_t first = (uint32_t)(e->sent_seq % e->ring_rows), count = 0, bytes = 0, size;
        do {
            size = e->sizes[first + count];
            count_sent(e, e->ring + (size_t)(first + count++) * e->row_bytes, size);
            bytes += size;
        } while (size == e->row_bytes && count < s->most_segments && first + count < e->ring_rows
                 && e->sent_seq + count < e->next_seq);
        ssize_t sent;
        do /* a signal may come while the socket is full; what is due for it waits for the caller */
            sent = sendto(s->out, e->ring + (size_t)first * e->row_bytes, bytes, 0,
                          (struct sockaddr *)&to, sizeof to);
        while (sent < 0 && errno == EINTR);
        if (sent != (ssize_t)bytes)
            s->error = sent < 0 ? errno : EMSGSIZE;
        e->sent_seq += count;
    }
}

/* Where the caller's `want` stood while `cq_serve` runs. */
struct serving {
    struct cq_sockets *sockets;
    void (*want)(struct cq_engine *e, int what);
    void *wants;
};

static void want(struct cq_engine *e, int what)
{
    struct serving *own = e->wants;
    if (what == CQ_WANT_SENT)
        send_pending(e, own->sockets);
    else
        own->want(e, what);
}

/* Receive one buffer; its length, or -1. */
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
        uint32_t value;
        memcpy(&value, CMSG_DATA(c), sizeof value);
        if (c->cmsg_level == UDP_LEVEL && c->cmsg_type == GRO_OPTION)
            *segment = value;
        else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == OVERFLOW_OPTION)
            s->overflow = value;
    }
    return length;
}

/* See `cq_serve`. */
static int serve(struct cq_engine *e, struct cq_sockets *s, int64_t until_ns)
{
    for (;;) {
        int cut;
        ssize_t length = receive(s, &s->segment, &cut);
        if (length < 0) {
            s->error = errno;
            return errno == EAGAIN || errno == EINTR ? CQ_IDLE : CQ_FAILED;
        }
        s->length = (uint32_t)length;
        int64_t now_ns = clock_ns();
        if (cut) {
            e->rejects[CQ_TRUNCATED]++;
            continue;
        }
        if (now_ns >= until_ns)
            return CQ_DUE;
        cq_take(e, s->buffer, s->length, s->segment, now_ns);
        if (cq_next_timeout(e) <= now_ns)
            cq_expire(e, now_ns);
        send_pending(e, s);
        if (s->error)
            return CQ_FAILED;
    }
}

/* Serve until `until_ns`: the buffer that came then is left to the caller. */
int cq_serve(struct cq_engine *e, struct cq_sockets *s, int64_t until_ns)
{
    struct serving own = {.sockets = s, .want = e->want, .wants = e->wants};
    e->want = want;
    e->wants = &own;
    int result = serve(e, s, until_ns);
    e->want = own.want;
    e->wants = own.wants;
    return result;
}
