/* The bound of the aggregator's benchmark: receive with UDP_GRO and add, nothing else. */
#define _GNU_SOURCE
#include "cq.h"

#include <errno.h>
#include <sys/socket.h>

enum { UDP_LEVEL = 17, GRO_OPTION = 104 };

typedef int32_t i32 __attribute__((aligned(1), may_alias));

CQ_FOR_EACH_CPU void bound_add(i32 *sums, const i32 *values, uint32_t count);
CQ_FOR_EACH_CPU void bound_add(i32 *sums, const i32 *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        sums[i] = (i32)((uint32_t)sums[i] + (uint32_t)values[i]);
}

/* Add what arrives to `rows` sums in turn, as long as `*phase` is `*this_phase`; `*done` counts.
 *
 * Returns 0, or the number of the error that ended it. */
CQ_EXPORT int bound_receive(int in, uint8_t *buffer, uint8_t *sums, uint32_t rows,
                            uint32_t datagram_bytes, volatile int64_t *done,
                            const volatile int64_t *phase, const int64_t *this_phase)
{
    uint32_t row_bytes = datagram_bytes - CQ_HEADER_BYTES, row = 0;
    while (*phase == *this_phase) {
        char control[CMSG_SPACE(sizeof(int)) * 2];
        struct iovec into = {.iov_base = buffer, .iov_len = CQ_BUFFER_BYTES};
        struct msghdr message = {
            .msg_iov = &into, .msg_iovlen = 1,
            .msg_control = control, .msg_controllen = sizeof control,
        };
        ssize_t length = recvmsg(in, &message, 0);
        if (length < 0 && errno != EAGAIN && errno != EINTR)
            return errno;
        for (ssize_t at = 0; at + datagram_bytes <= length; at += datagram_bytes) {
            bound_add((i32 *)(sums + (size_t)row * row_bytes),
                      (const i32 *)(buffer + at + CQ_HEADER_BYTES), row_bytes / 4);
            row = row + 1 == rows ? 0 : row + 1;
            *done += 1;
        }
    }
    return 0;
}
