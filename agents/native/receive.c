/* One receive buffer: take it apart, check each datagram, and give runs of blocks to the table. */
#include "cq.h"

#include <string.h>

enum { MAGIC = 0x434E, VERSION = 1, TYPE_DATA = 1 };
enum { ETHERNET_IP_UDP_BYTES = 42 };

static inline uint16_t get16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, 2);
    return __builtin_bswap16(v);
}

static inline uint32_t get32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return __builtin_bswap32(v);
}

static inline uint64_t get64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return __builtin_bswap64(v);
}

/* The reason to refuse a datagram, or -1; as `agents.bursts.parse` finds it. */
static int fault(const struct cq_engine *e, const uint8_t *p, uint32_t size)
{
    if (size < CQ_HEADER_BYTES + 4)
        return CQ_SHORT;
    if (get16(p) != MAGIC)
        return CQ_MAGIC;
    if (p[2] != VERSION)
        return CQ_VERSION;
    if (p[3] != TYPE_DATA)
        return CQ_TYPE;
    if (p[5] != e->dtype)
        return CQ_DTYPE;
    if (get32(p + 8) != e->job_id)
        return CQ_JOB;
    if (size != CQ_HEADER_BYTES + 4u * get16(p + 6))
        return CQ_LENGTH;
    return get32(p + CQ_CRC_OFFSET) == cq_datagram_crc(p, size) ? -1 : CQ_CRC;
}

/* Whether `next` is the block after `p` of the same stream: epoch to cause, and bitmap agree. */
static int follows(const uint8_t *p, const uint8_t *next)
{
    return get64(next + 24) == get64(p + 24) + 1 && memcmp(p + 12, next + 12, 12) == 0
        && memcmp(p + 32, next + 32, 8) == 0;
}

/* The reason why a run of blocks does not belong here, or -1: see `agents.admission`. */
static int misfit(const struct cq_engine *e, const uint8_t *p, uint32_t count)
{
    uint32_t index = get32(p + 16);
    uint64_t block = get64(p + 24);
    if (index >= e->rounds)
        return CQ_ROUND;
    if (block > e->blocks || count > e->blocks - block)
        return CQ_BLOCK;
    if (get16(p + 20) != e->round_of[index].clique)
        return CQ_CLIQUE;
    if (p[22] >= CQ_SOURCES || get64(p + 32) != (uint64_t)1 << p[22])
        return CQ_CONTRIBUTOR;
    return -1;
}

/* The reason why the table cannot take a run of blocks now, or -1. */
static int refusal(const struct cq_engine *e, const uint8_t *p, uint32_t count, uint32_t width)
{
    const struct cq_round *round = &e->round_of[get32(p + 16)];
    uint32_t block = (uint32_t)get64(p + 24);
    if (!round->seen)
        return CQ_ROUND;
    if (get64(p + 32) & ~round->mask)
        return CQ_CONTRIBUTOR;
    if (cq_elements_of(e, block) != width || cq_elements_of(e, block + count - 1) != width)
        return CQ_BLOCK;
    return -1;
}

static void end_run(struct cq_engine *e, const uint8_t *first, int64_t now_ns)
{
    struct cq_burst run = {
        .round = get32(first + 16), .block = (uint32_t)get64(first + 24),
        .count = e->run_end - e->run_begin,
    };
    cq_event_add(e, now_ns, CQ_HELD, first[22], &run, e->occupied);
}

/* Find the end of the run that begins at the cursor; count it, and pass over it if refused. */
static void begin_run(struct cq_engine *e, const uint8_t *buffer, int64_t now_ns)
{
    const uint8_t *first = buffer + e->valid[e->cursor];
    uint32_t size = e->valid_size[e->cursor], end = e->cursor + 1;
    while (end < e->valid_count && e->valid_size[end] == size
           && follows(buffer + e->valid[end - 1], buffer + e->valid[end]))
        end++;
    uint32_t count = end - e->cursor;
    e->run_begin = e->cursor;
    e->run_end = end;
    int reason = misfit(e, first, count);
    if (reason < 0) {
        struct cq_round *round = &e->round_of[get32(first + 16)];
        round->datagrams_in += count;
        round->bytes_in += (uint64_t)count * (size + ETHERNET_IP_UDP_BYTES);
        reason = refusal(e, first, count, (size - CQ_HEADER_BYTES) / 4);
        if (reason < 0)
            return;
        end_run(e, first, now_ns);
    }
    e->rejects[reason] += count;
    e->cursor = end;
}

static void take_datagram(struct cq_engine *e, const uint8_t *p, int64_t now_ns)
{
    struct cq_part come = {
        .elements = p + CQ_HEADER_BYTES, .bitmap = get64(p + 32), .round = get32(p + 16),
        .block = (uint32_t)get64(p + 24), .exponent = (int16_t)get16(p + 44), .flags = p[4],
    };
    cq_take_block(e, &come, now_ns);
}

/* Go on with the buffer that `cq_take` was given, where the last call ended for want of room. */
int cq_resume(struct cq_engine *e, const uint8_t *buffer, int64_t now_ns)
{
    while (e->cursor < e->valid_count) {
        int full = cq_room(e);
        if (full != CQ_DONE)
            return full;
        if (e->cursor == e->run_end) {
            begin_run(e, buffer, now_ns);
            continue;
        }
        take_datagram(e, buffer + e->valid[e->cursor++], now_ns);
        if (e->cursor == e->run_end)
            end_run(e, buffer + e->valid[e->run_begin], now_ns);
    }
    return CQ_DONE;
}

/* Take a buffer of datagrams of `segment` bytes each, the last one maybe shorter. */
int cq_take(struct cq_engine *e, const uint8_t *buffer, uint32_t length, uint32_t segment,
            int64_t now_ns)
{
    e->cursor = e->run_end = e->valid_count = 0;
    uint32_t offset = 0;
    do { /* a datagram may be empty */
        uint32_t size = length - offset < segment ? length - offset : segment;
        int reason = fault(e, buffer + offset, size);
        if (reason < 0) {
            e->valid[e->valid_count] = offset;
            e->valid_size[e->valid_count++] = size;
        } else {
            e->rejects[reason]++;
        }
        offset += size;
    } while (offset < length);
    return cq_resume(e, buffer, now_ns);
}
