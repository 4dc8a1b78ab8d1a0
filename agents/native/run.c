/* The usual buffer, fast: consecutive blocks of one stream, summed in int32.
 *
 * What this does, `receive.c` does too: it takes over where a buffer is another one, or
 * where a datagram is garbled. Here a datagram is added before its checksum is known, in the
 * one pass that finds it, and subtracted again should it be wrong. */
#include "cq.h"
#include "wire.h"

/* One stream's run of blocks. */
struct run {
    struct cq_round *round;
    const uint8_t *first;
    uint64_t bitmap;
    uint8_t flags;
};

/* Whether a buffer is one run that the table takes, by its first header alone.
 *
 * What is checked of it holds for each that agrees with it, see `cq_follows`. */
static int is_run(struct cq_engine *e, const uint8_t *buffer, uint32_t length, uint32_t segment,
                  struct run *run)
{
    if (e->dtype != CQ_I32 || e->holds || segment != e->row_bytes || length % segment
        || segment < CQ_HEADER_BYTES + 256 || !length || !e->passes)
        return 0;
    if (cq_fault(e, buffer, segment) >= 0)
        return 0;
    uint32_t source = buffer[AT_SOURCE], count = length / segment;
    if (source >= CQ_SOURCES || !(e->epoch_known >> source & 1)
        || e->epoch_of[source] != get32(buffer + AT_EPOCH))
        return 0;
    *run = (struct run){
        .round = cq_live_round(e, get32(buffer + AT_ROUND)), .first = buffer,
        .bitmap = get64(buffer + AT_BITMAP), .flags = buffer[AT_FLAGS],
    };
    return cq_misfit(e, run->round, buffer, count) < 0
        && cq_refusal(e, run->round, buffer, count) < 0;
}

static void note_taken(struct cq_engine *e, const struct run *run, uint32_t block)
{
    e->late += run->round->emitted[block] != 0;
    run->round->seen[block] |= run->bitmap;
    run->round->contributions++;
}

/* Each of these returns whether the checksum was right; if not, nothing has changed. */

static int store(struct cq_engine *e, const struct run *run, uint32_t block, const uint8_t *p,
                 struct cq_slot *slot, int64_t now_ns)
{
    uint8_t *row = cq_row_elements(e, cq_free_row(e));
    if (e->passes->copy(row, p, e->row_bytes - CQ_HEADER_BYTES) != get32(p + AT_CRC))
        return 0;
    struct cq_part come = {.bitmap = run->bitmap, .flags = run->flags};
    note_taken(e, run, block);
    cq_occupy(e, slot, run->round->index, block, now_ns);
    cq_place(e, slot, &come);
    return 1;
}

static int add(struct cq_engine *e, const struct run *run, uint32_t block, const uint8_t *p,
               struct cq_slot *slot)
{
    const uint8_t *elements = p + CQ_HEADER_BYTES;
    struct cq_row *row = &e->row[slot->first_row];
    uint8_t *sums = cq_row_elements(e, slot->first_row);
    int left;
    uint32_t count = e->row_bytes - CQ_HEADER_BYTES;
    if (e->passes->add(sums, p, count, &left) != get32(p + AT_CRC)) {
        cq_subtract(sums, elements, e->elements);
        return 0;
    }
    if (left)
        cq_saturate(sums, elements, e->elements);
    row->bitmap |= run->bitmap;
    row->flags |= run->flags | (left ? CQ_SATURATED : 0);
    note_taken(e, run, block);
    return 1;
}

static int complete(struct cq_engine *e, const struct run *run, uint32_t block, const uint8_t *p,
                    struct cq_slot *slot, int64_t now_ns)
{
    const uint8_t *elements = p + CQ_HEADER_BYTES;
    struct cq_part sum = cq_part_of(e, slot->first_row);
    uint8_t *row = cq_next_row(e), *payload = row + CQ_HEADER_BYTES;
    sum.bitmap |= run->bitmap;
    sum.flags |= run->flags;
    uint8_t header[CQ_HEADER_BYTES]; /* the ring's row is not in the cache yet */
    cq_write_header(e, header, run->round, block, &sum, CQ_COMPLETE, now_ns);
    int left;
    uint32_t crc_out, count = e->row_bytes - CQ_HEADER_BYTES;
    uint32_t crc = e->passes->sum(payload, header, sum.elements, p, count, &crc_out, &left);
    if (crc != get32(p + AT_CRC))
        return 0;
    memcpy(row, header, sizeof header);
    if (left) {
        cq_saturate(payload, elements, e->elements);
        sum.flags |= CQ_SATURATED;
        row[AT_FLAGS] = sum.flags;
        crc_out = cq_datagram_crc(row, e->row_bytes);
    }
    note_taken(e, run, block);
    e->free_rows[e->freed++] = slot->first_row;
    e->occupied--;
    cq_release(e, slot);
    cq_commit(e, run->round, block, &sum, CQ_COMPLETE, crc_out, now_ns);
    return 1;
}

/* Duplicates, collisions, and what leaves at once: nothing that is usual. */
static int take_other(struct cq_engine *e, const struct run *run, uint32_t block,
                      const uint8_t *p, int64_t now_ns)
{
    if (get32(p + AT_CRC) != cq_datagram_crc(p, e->row_bytes))
        return 0;
    struct cq_part come = {
        .elements = p + CQ_HEADER_BYTES, .bitmap = run->bitmap, .flags = run->flags, .on_wire = 1,
    };
    cq_take_block(e, run->round, block, &come, now_ns);
    return 1;
}

static int take(struct cq_engine *e, const struct run *run, uint32_t block, const uint8_t *p,
                int64_t now_ns)
{
    uint64_t seen = run->round->seen[block], held = seen ^ run->round->emitted[block];
    int completes = (seen | run->bitmap) == run->round->mask;
    struct cq_slot *slot;
    if (seen & run->bitmap)
        return take_other(e, run, block, p, now_ns);
    if (held) {
        slot = cq_find(e, run->round, block);
        return completes ? complete(e, run, block, p, slot, now_ns) : add(e, run, block, p, slot);
    }
    slot = completes ? NULL : cq_free_way(e, run->round->index, block);
    return slot ? store(e, run, block, p, slot, now_ns) : take_other(e, run, block, p, now_ns);
}

/* Take a buffer if it is a run; returns the bytes of it that are done with.
 *
 * These are all, or those before a datagram that is not the next of the run, or those up to a
 * garbled one and with it, or none. Each header is looked at when its datagram's turn has come:
 * by then the processor has fetched it. */
uint32_t cq_take_run(struct cq_engine *e, const uint8_t *buffer, uint32_t length,
                     uint32_t segment, int64_t now_ns)
{
    struct run run;
    if (!is_run(e, buffer, length, segment, &run))
        return 0;
    uint32_t block = (uint32_t)get64(buffer + AT_BLOCK), count = length / segment, taken = 0;
    int garbled = 0;
    cq_turn_free_rows(e, count);
    for (const uint8_t *p = buffer; taken < count && !garbled; p += segment) {
        if (taken && !cq_follows(p - segment, p))
            break;
        garbled = !take(e, &run, block + taken, p, now_ns);
        taken += !garbled;
    }
    if (taken)
        cq_count_run(e, run.round, buffer, taken, now_ns);
    e->rejects[CQ_CRC] += garbled;
    return (taken + garbled) * segment;
}
