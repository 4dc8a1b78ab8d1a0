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

/* What came with a buffer: the size of its datagrams, and how many have been lost. */
static void read_control(struct cq_sockets *s, struct msghdr *message, uint32_t *segment)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        uint32_t value;
        memcpy(&value, CMSG_DATA(c), sizeof value);
        if (c->cmsg_level == UDP_LEVEL && c->cmsg_type == GRO_OPTION)
            *segment = value;
        else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == OVERFLOW_OPTION)
            s->overflow = value;
    }
}

/* Wait for a buffer, and receive what else there is; what had to be cut is counted and dropped.
 *
 * Returns whether any came. */
static int receive(struct cq_engine *e, struct cq_sockets *s)
{
    char control[CQ_BATCH][CMSG_SPACE(sizeof(int)) * 2];
    struct iovec into[CQ_BATCH];
    struct mmsghdr messages[CQ_BATCH];
    for (int i = 0; i < CQ_BATCH; i++) {
        into[i] = (struct iovec){s->buffers + (size_t)i * CQ_BUFFER_BYTES, CQ_BUFFER_BYTES};
        messages[i].msg_hdr = (struct msghdr){
            .msg_iov = &into[i], .msg_iovlen = 1,
            .msg_control = control[i], .msg_controllen = sizeof control[i],
        };
    }
    int came = recvmmsg(s->in, messages, CQ_BATCH, MSG_WAITFORONE, NULL);
    s->count = 0;
    for (int i = 0; i < came; i++) {
        uint32_t length = messages[i].msg_len, segment = length ? length : 1;
        read_control(s, &messages[i].msg_hdr, &segment);
        if (messages[i].msg_hdr.msg_flags & MSG_TRUNC)
            e->rejects[CQ_TRUNCATED]++;
        else
            s->received[s->count++] = (struct cq_received){(uint32_t)i, length, segment};
    }
    return came >= 0;
}

/* Take what came, and send after each buffer, as if each had come alone. */
static void take(struct cq_engine *e, struct cq_sockets *s, int64_t now_ns)
{
    for (const struct cq_received *r = s->received; r < s->received + s->count; r++) {
        const uint8_t *buffer = s->buffers + (size_t)r->buffer * CQ_BUFFER_BYTES;
        cq_take(e, buffer, r->length, r->segment, now_ns);
        if (cq_next_timeout(e) <= now_ns)
            cq_expire(e, now_ns);
        send_pending(e, s);
    }
}

/* See `cq_serve`. */
static int serve(struct cq_engine *e, struct cq_sockets *s, int64_t until_ns)
{
    for (;;) {
        if (!receive(e, s)) {
            s->error = errno;
            return errno == EAGAIN || errno == EINTR ? CQ_IDLE : CQ_FAILED;
        }
        int64_t now_ns = clock_ns();
        if (s->count && now_ns >= until_ns)
            return CQ_DUE;
        take(e, s, now_ns);
        if (s->error)
            return CQ_FAILED;
    }
}

/* Serve until `until_ns`: the buffers that came then are left to the caller. */
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
