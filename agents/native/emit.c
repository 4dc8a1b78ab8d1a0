/* What leaves: datagrams built in the resend ring, and the events that say so. */
#include "cq.h"

#include <string.h>

enum { MAGIC = 0x434E, VERSION = 1, TYPE_AGG = 2 };
enum { ETHERNET_IP_UDP_BYTES = 42, NOT_CHECKED = 2 };

static inline void put16(uint8_t *p, uint16_t v)
{
    v = __builtin_bswap16(v);
    memcpy(p, &v, 2);
}

static inline void put32(uint8_t *p, uint32_t v)
{
    v = __builtin_bswap32(v);
    memcpy(p, &v, 4);
}

static inline void put64(uint8_t *p, uint64_t v)
{
    v = __builtin_bswap64(v);
    memcpy(p, &v, 8);
}

/* Whether the ring and the events have room for what one step can bring: a block that has to
 * make way, the block itself, and the events of both and of the run. */
int cq_room(const struct cq_engine *e)
{
    if (e->next_seq - e->sent_seq + 2 > e->ring_rows)
        return CQ_RING_FULL;
    return e->events_used + 4 > e->events_room ? CQ_EVENTS_FULL : CQ_DONE;
}

void cq_event_add(struct cq_engine *e, int64_t now_ns, enum cq_kind kind, uint32_t source,
                  const struct cq_burst *what, uint64_t value)
{
    e->events[e->events_used++] = (struct cq_event){
        .t_ns = now_ns - e->start_ns, .round = what->round, .kind = (uint8_t)kind,
        .src = (uint8_t)source, .cause = (uint8_t)what->cause, .exact = NOT_CHECKED,
        .block = what->block, .count = what->count, .value = value,
    };
}

/* Write the event of the sums that left last. */
void cq_end_burst(struct cq_engine *e, int64_t now_ns)
{
    if (e->burst.count)
        cq_event_add(e, now_ns, CQ_AGGREGATE_OUT, e->source, &e->burst, e->burst.bitmap);
    e->burst.count = 0;
}

static void note_burst(struct cq_engine *e, const struct cq_part *part, enum cq_cause cause,
                       int64_t now_ns)
{
    struct cq_burst *burst = &e->burst;
    int follows = burst->count && burst->count < e->burst_limit
        && part->block == burst->block + burst->count && part->round == burst->round
        && part->bitmap == burst->bitmap && cause == burst->cause
        && e->next_seq % e->ring_rows != 0;
    if (!follows) {
        cq_end_burst(e, now_ns);
        burst->round = part->round;
        burst->block = part->block;
        burst->bitmap = part->bitmap;
        burst->cause = cause;
    }
    burst->count++;
}

static inline uint8_t *next_row(const struct cq_engine *e)
{
    return e->ring + e->next_seq % e->ring_rows * e->row_bytes;
}

/* The elements are in the next row: write the header before them, and count. */
static void seal(struct cq_engine *e, const struct cq_part *part, enum cq_cause cause,
                 int64_t now_ns)
{
    uint8_t *row = next_row(e);
    struct cq_round *round = &e->round_of[part->round];
    uint32_t elements = cq_elements_of(e, part->block);
    uint32_t size = CQ_HEADER_BYTES + 4 * elements;
    note_burst(e, part, cause, now_ns);
    put16(row, MAGIC);
    row[2] = VERSION;
    row[3] = TYPE_AGG;
    row[4] = (uint8_t)part->flags;
    row[5] = (uint8_t)e->dtype;
    put16(row + 6, (uint16_t)elements);
    put32(row + 8, e->job_id);
    put32(row + 12, e->epoch);
    put32(row + 16, part->round);
    put16(row + 20, (uint16_t)round->clique);
    row[22] = (uint8_t)e->source;
    row[23] = (uint8_t)cause;
    put64(row + 24, part->block);
    put64(row + 32, part->bitmap);
    put32(row + 40, (uint32_t)e->next_seq);
    put16(row + 44, (uint16_t)part->exponent);
    put16(row + 46, (uint16_t)__builtin_popcountll(part->bitmap));
    put32(row + 48, (uint32_t)((now_ns - e->start_ns) / 1000));
    put32(row + CQ_CRC_OFFSET, cq_datagram_crc(row, size));
    e->sizes[e->next_seq % e->ring_rows] = size;
    e->next_seq++;
    round->datagrams_out++;
    round->bytes_out += size + ETHERNET_IP_UDP_BYTES;
    round->emitted[part->block] |= part->bitmap;
    round->complete += round->emitted[part->block] == round->mask;
    e->emitted[cause]++;
    e->saturated += (part->flags & CQ_SATURATED) != 0;
    e->nonfinite += (part->flags & CQ_NONFINITE) != 0;
}

/* Let a sum, or a single contribution, leave as it is. */
void cq_emit(struct cq_engine *e, const struct cq_part *part, enum cq_cause cause, int64_t now_ns)
{
    memcpy(next_row(e) + CQ_HEADER_BYTES, part->elements, 4 * cq_elements_of(e, part->block));
    seal(e, part, cause, now_ns);
}

/* Let a sum leave together with its last contribution: added straight into the ring. */
void cq_emit_sum(struct cq_engine *e, const struct cq_part *held, const struct cq_part *come,
                 enum cq_cause cause, int64_t now_ns)
{
    struct cq_part sum = *held;
    uint32_t elements = cq_elements_of(e, come->block);
    sum.bitmap |= come->bitmap;
    sum.flags = cq_add(e->dtype, next_row(e) + CQ_HEADER_BYTES, held, come, elements,
                       &sum.exponent);
    seal(e, &sum, cause, now_ns);
}
