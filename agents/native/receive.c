/* One receive buffer: take it apart, check each datagram, and give runs of blocks to the table. */
#include "cq.h"
#include "wire.h"

/* The reason to refuse a datagram but for its checksum, or -1; as `agents.bursts.parse`. */
int cq_fault(const struct cq_engine *e, const uint8_t *p, uint32_t size)
{
    if (size < CQ_HEADER_BYTES + e->element_bytes)
        return CQ_SHORT;
    if (get16(p + AT_MAGIC) != CQ_MAGIC)
        return CQ_MAGIC_WRONG;
    if (p[AT_VERSION] != CQ_VERSION)
        return CQ_VERSION_WRONG;
    if (p[AT_TYPE] != CQ_DATA && !(e->takes_sums && p[AT_TYPE] == CQ_AGG))
        return CQ_TYPE;
    if (p[AT_DTYPE] != e->dtype)
        return CQ_DTYPE;
    if (get32(p + AT_JOB) != e->job_id)
        return CQ_JOB;
    if (size != CQ_HEADER_BYTES + e->element_bytes * get16(p + AT_ELEMENTS))
        return CQ_LENGTH;
    return -1;
}

/* Whether `next` is the block after `p` of the same stream, with all else alike but the
 * sequence number, the time and the checksum. */
int cq_follows(const uint8_t *p, const uint8_t *next)
{
    uint64_t block = get64(next + AT_BLOCK), differs = (block - 1) ^ get64(p + AT_BLOCK);
    for (int at = AT_MAGIC; at < AT_BLOCK; at += 8)
        differs |= get64(p + at) ^ get64(next + at);
    differs |= get64(p + AT_BITMAP) ^ get64(next + AT_BITMAP);
    differs |= (uint32_t)(get64(p + AT_SEQ) ^ get64(next + AT_SEQ)); /* all but the number */
    return block && !differs;
}

/* Whether a source's datagram is not of a process that has been restarted since. */
static int admits(struct cq_engine *e, uint32_t source, uint32_t epoch)
{
    uint64_t bit = (uint64_t)1 << source;
    if ((e->epoch_known & bit) && (int32_t)(epoch - e->epoch_of[source]) < 0)
        return 0;
    e->epoch_known |= bit;
    e->epoch_of[source] = epoch;
    return 1;
}

struct cq_round *cq_live_round(struct cq_engine *e, uint32_t index)
{
    for (struct cq_round *round = e->live; round < e->live + CQ_LIVE_ROUNDS; round++)
        if (round->seen && round->index == index)
            return round;
    return NULL;
}

/* The reason why a run of `count` blocks does not belong here, or -1. */
int cq_misfit(struct cq_engine *e, const struct cq_round *round, const uint8_t *p, uint32_t count)
{
    uint64_t block = get64(p + AT_BLOCK);
    if (!round)
        return CQ_ROUND;
    if (block > e->blocks || count > e->blocks - block)
        return CQ_BLOCK;
    if (get16(p + AT_CLIQUE) != round->clique)
        return CQ_CLIQUE;
    uint64_t bitmap = get64(p + AT_BITMAP);
    if (p[AT_SOURCE] >= CQ_SOURCES || !bitmap)
        return CQ_CONTRIBUTOR;
    if (bitmap != (uint64_t)1 << p[AT_SOURCE] && !e->takes_sums)
        return CQ_CONTRIBUTOR;
    return admits(e, p[AT_SOURCE], get32(p + AT_EPOCH)) ? -1 : CQ_EPOCH;
}

/* The reason why the table cannot take a run that belongs here, or -1. */
int cq_refusal(const struct cq_engine *e, const struct cq_round *round, const uint8_t *p,
               uint32_t count)
{
    uint32_t block = (uint32_t)get64(p + AT_BLOCK), width = get16(p + AT_ELEMENTS);
    if (get64(p + AT_BITMAP) & ~round->mask)
        return CQ_CONTRIBUTOR;
    if (cq_elements_of(e, block) != width || cq_elements_of(e, block + count - 1) != width)
        return CQ_BLOCK;
    return -1;
}

/* Count a run that was admitted, and write its event. */
void cq_count_run(struct cq_engine *e, struct cq_round *round, const uint8_t *first,
                  uint32_t count, int64_t now_ns)
{
    struct cq_burst run = {
        .round = round->index, .block = (uint32_t)get64(first + AT_BLOCK), .count = count,
    };
    round->datagrams += count;
    round->wire_bytes += (uint64_t)count
        * (CQ_FRAME_BYTES + CQ_HEADER_BYTES + e->element_bytes * get16(first + AT_ELEMENTS));
    cq_event_add(e, now_ns, CQ_HELD, first[AT_SOURCE], &run, e->occupied);
}

static void add_run(struct cq_engine *e, struct cq_round *round, const uint8_t *buffer,
                    const uint32_t *offsets, uint32_t count, int64_t now_ns)
{
    const uint8_t *first = buffer + offsets[0];
    uint32_t block = (uint32_t)get64(first + AT_BLOCK);
    int exponent = e->dtype == CQ_I32_EXPONENT ? (int16_t)get16(first + AT_EXPONENT) : 0;
    int reason = cq_refusal(e, round, first, count);
    if (reason >= 0)
        e->rejects[reason] += count;
    for (uint32_t i = 0; reason < 0 && i < count; i++) {
        struct cq_part come = {
            .elements = buffer + offsets[i] + CQ_HEADER_BYTES, .on_wire = 1,
            .bitmap = get64(first + AT_BITMAP), .exponent = (int16_t)exponent,
            .flags = first[AT_FLAGS],
        };
        cq_take_block(e, round, block + i, &come, now_ns);
    }
    cq_count_run(e, round, first, count, now_ns);
}

static void take_runs(struct cq_engine *e, const uint8_t *buffer, uint32_t valid, int64_t now_ns)
{
    for (uint32_t begin = 0, end; begin < valid; begin = end) {
        const uint8_t *first = buffer + e->valid[begin];
        for (end = begin + 1; end < valid; end++)
            if (e->valid_size[end] != e->valid_size[begin]
                || !cq_follows(buffer + e->valid[end - 1], buffer + e->valid[end]))
                break;
        struct cq_round *round = cq_live_round(e, get32(first + AT_ROUND));
        int reason = cq_misfit(e, round, first, end - begin);
        if (reason < 0)
            add_run(e, round, buffer, e->valid + begin, end - begin, now_ns);
        else
            e->rejects[reason] += end - begin;
    }
}

/* Take the datagrams of a buffer from `offset` on, the last one maybe shorter. */
static void take_each(struct cq_engine *e, const uint8_t *buffer, uint32_t offset,
                      uint32_t length, uint32_t segment, int64_t now_ns)
{
    uint32_t valid = 0;
    do { /* a datagram may be empty */
        const uint8_t *p = buffer + offset;
        uint32_t size = length - offset < segment ? length - offset : segment;
        int reason = cq_fault(e, p, size);
        if (reason < 0 && get32(p + AT_CRC) != cq_datagram_crc(p, size))
            reason = CQ_CRC;
        if (reason < 0) {
            e->valid[valid] = offset;
            e->valid_size[valid++] = size;
        } else {
            e->rejects[reason]++;
        }
        offset += size;
    } while (offset < length);
    take_runs(e, buffer, valid, now_ns);
}

/* Take a buffer of datagrams of `segment` bytes each. */
void cq_take(struct cq_engine *e, const uint8_t *buffer, uint32_t length, uint32_t segment,
             int64_t now_ns)
{
    uint32_t taken = cq_take_run(e, buffer, length, segment, now_ns);
    if (taken < length || !length)
        take_each(e, buffer, taken, length, segment, now_ns);
    cq_end_burst(e, now_ns);
}
