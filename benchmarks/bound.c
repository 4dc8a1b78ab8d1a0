/* The bound of the aggregator's benchmark: receive with UDP_GRO and add, nothing else. */
#define _GNU_SOURCE
#include "cq.h"

#include <errno.h>
#include <sys/socket.h>

typedef int32_t i32 __attribute__((aligned(1), may_alias));

CQ_FOR_EACH_CPU void bound_add(i32 *sums, const i32 *values, uint32_t count);
CQ_FOR_EACH_CPU void bound_add(i32 *sums, const i32 *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        sums[i] = (i32)((uint32_t)sums[i] + (uint32_t)values[i]);
}

/* Receive up to `batch` buffers; how many came, or -1. */
static int receive(int in, uint8_t *buffers, uint32_t batch, uint32_t *lengths)
{
    char control[CQ_BATCH][CMSG_SPACE(sizeof(int)) * 2];
    struct iovec into[CQ_BATCH];
    struct mmsghdr messages[CQ_BATCH];
    for (uint32_t i = 0; i < batch; i++) {
        into[i] = (struct iovec){buffers + (size_t)i * CQ_BUFFER_BYTES, CQ_BUFFER_BYTES};
        messages[i].msg_hdr = (struct msghdr){
            .msg_iov = &into[i], .msg_iovlen = 1,
            .msg_control = control[i], .msg_controllen = sizeof control[i],
        };
    }
    if (batch == 1) {
        ssize_t length = recvmsg(in, &messages[0].msg_hdr, 0);
        lengths[0] = (uint32_t)length;
        return length < 0 ? -1 : 1;
    }
    int came = recvmmsg(in, messages, batch, MSG_WAITFORONE, NULL);
    for (int i = 0; i < came; i++)
        lengths[i] = messages[i].msg_len;
    return came;
}

/* Add what arrives to `rows` sums in turn, until nothing comes any more; with one call of the
 * system for each buffer, or for up to `batch` of them.
 *
 * Returns how many datagrams came, or less than 0: the number of an error. */
CQ_EXPORT int64_t bound_receive(int in, uint8_t *buffers, uint32_t batch, uint8_t *sums,
                                uint32_t rows, uint32_t datagram_bytes)
{
    uint32_t row_bytes = datagram_bytes - CQ_HEADER_BYTES, row = 0, lengths[CQ_BATCH];
    for (int64_t taken = 0;;) {
        int came = receive(in, buffers, batch, lengths);
        if (came < 0)
            return errno == EAGAIN ? taken : -errno;
        for (int i = 0; i < came; i++) {
            const uint8_t *buffer = buffers + (size_t)i * CQ_BUFFER_BYTES;
            for (uint32_t at = 0; at + datagram_bytes <= lengths[i]; at += datagram_bytes) {
                bound_add((i32 *)(sums + (size_t)row * row_bytes),
                          (const i32 *)(buffer + at + CQ_HEADER_BYTES), row_bytes / 4);
                row = row + 1 == rows ? 0 : row + 1;
                taken++;
            }
        }
    }
}
