/* What leaves: datagrams built in the resend ring, and the events that say so. */
#include "cq.h"
#include "wire.h"

enum { NOT_CHECKED = 2 };

void cq_event_add(struct cq_engine *e, int64_t now_ns, enum cq_kind kind, uint32_t source,
                  const struct cq_burst *what, uint64_t value)
{
    if (e->events_used == e->events_room)
        e->want(e, CQ_WANT_EVENTS);
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

/* Count a sum to the event in the making, or begin another one. */
static void note(struct cq_engine *e, uint32_t round, uint32_t block, uint64_t bitmap,
                 enum cq_cause cause, int64_t now_ns)
{
    struct cq_burst *burst = &e->burst;
    if (burst->count && block == burst->block + burst->count && round == burst->round
        && bitmap == burst->bitmap && cause == burst->cause) {
        burst->count++;
        return;
    }
    cq_end_burst(e, now_ns);
    *burst = (struct cq_burst){
        .bitmap = bitmap, .round = round, .block = block, .count = 1, .cause = cause,
    };
}

/* Write a sum's header, eight bytes at a time; its checksum comes with `cq_commit`. */
void cq_write_header(const struct cq_engine *e, uint8_t *row, const struct cq_round *round,
                     uint32_t block, const struct cq_part *sum, enum cq_cause cause,
                     int64_t now_ns)
{
    uint64_t start = (uint64_t)CQ_MAGIC << 48 | (uint64_t)CQ_VERSION << 40
        | (uint64_t)CQ_AGG << 32 | (uint64_t)sum->flags << 24 | (uint64_t)e->dtype << 16;
    uint64_t place = (uint64_t)round->index << 32 | round->clique << 16 | e->source << 8;
    uint64_t scale = (uint64_t)(uint16_t)sum->exponent << 16;
    put64(row + AT_MAGIC, start | cq_elements_of(e, block));
    put64(row + AT_JOB, (uint64_t)e->job_id << 32 | e->epoch);
    put64(row + AT_ROUND, place | cause);
    put64(row + AT_BLOCK, block);
    put64(row + AT_BITMAP, sum->bitmap);
    put64(row + AT_SEQ, e->next_seq << 32 | scale | __builtin_popcountll(sum->bitmap));
    put64(row + AT_TIME, (uint64_t)((now_ns - e->start_ns) / 1000) << 32);
}

/* The ring's next row, after whatever waits has been sent if it is enough for a burst. */
uint8_t *cq_next_row(struct cq_engine *e)
{
    if (e->next_seq - e->sent_seq >= e->send_at)
        e->want(e, CQ_WANT_SENT);
    return e->ring + (size_t)(e->next_seq % e->ring_rows) * e->row_bytes;
}

/* The datagram in the next row is complete but for its checksum: it leaves. */
void cq_commit(struct cq_engine *e, struct cq_round *round, uint32_t block,
               const struct cq_part *sum, enum cq_cause cause, uint32_t crc, int64_t now_ns)
{
    uint32_t index = (uint32_t)(e->next_seq % e->ring_rows);
    put32(e->ring + (size_t)index * e->row_bytes + AT_CRC, crc);
    note(e, round->index, block, sum->bitmap, cause, now_ns);
    e->sizes[index] = CQ_HEADER_BYTES + e->element_bytes * cq_elements_of(e, block);
    e->sent_ns[index] = now_ns;
    e->next_seq++;
    round->emitted[block] |= sum->bitmap;
    round->complete += round->emitted[block] == round->mask;
    e->emitted[cause]++;
    e->saturated += (sum->flags & CQ_SATURATED) != 0;
    e->nonfinite += (sum->flags & CQ_NONFINITE) != 0;
}

/* Let the sum of some parts leave, added in their order. */
void cq_emit(struct cq_engine *e, struct cq_round *round, uint32_t block,
             const struct cq_part *parts, uint32_t count, enum cq_cause cause, int64_t now_ns)
{
    uint32_t elements = cq_elements_of(e, block);
    uint8_t *row = cq_next_row(e), *payload = row + CQ_HEADER_BYTES;
    struct cq_part sum = parts[0];
    if (count > 1) {
        /* bf16 is added up in float32, which does not fit the datagram; all else in place. */
        uint8_t *to = e->dtype == CQ_BF16 ? e->scratch : payload;
        if (e->dtype == CQ_BF16 && sum.on_wire) {
            cq_keep(e->dtype, to, &sum, elements);
            sum.elements = to;
        }
        sum.on_wire = 0;
        for (uint32_t i = 1; i < count; i++)
            cq_add(e->dtype, to, &sum, &parts[i], elements);
    }
    sum.flags |= cq_leave(e->dtype, payload, sum.elements, sum.on_wire, elements);
    cq_write_header(e, row, round, block, &sum, cause, now_ns);
    uint32_t size = CQ_HEADER_BYTES + e->element_bytes * elements;
    cq_commit(e, round, block, &sum, cause, cq_datagram_crc(row, size), now_ns);
}
