/* The memory of what is incomplete: keep, add, and let leave; see `agents.aggregator`. */
#include "cq.h"

static const int64_t NEVER_NS = (int64_t)1 << 62;

struct cq_part cq_part_of(const struct cq_engine *e, uint32_t row)
{
    const struct cq_row *kept = &e->row[row];
    return (struct cq_part){
        .elements = cq_row_elements(e, row), .bitmap = kept->bitmap, .exponent = kept->exponent,
        .flags = kept->flags,
    };
}

/* The row that is used next: the one freed last, so that only as much memory is touched as
 * is held at once. */
uint32_t cq_free_row(const struct cq_engine *e)
{
    return e->freed ? e->free_rows[e->freed - 1] : e->untouched;
}

/* Let the next `count` blocks get rows that ascend, if as many are free: the rows of consecutive
 * blocks are freed in that order, and a stack gives them back the other way round. The processor
 * fetches ahead what ascends. */
void cq_turn_free_rows(struct cq_engine *e, uint32_t count)
{
    if (count > e->freed)
        return;
    uint32_t *low = e->free_rows + e->freed - count, *high = e->free_rows + e->freed - 1;
    if (*high < *low)
        return;
    for (; low < high; low++, high--) {
        uint32_t row = *low;
        *low = *high;
        *high = row;
    }
}

/* Note that the free row has the elements of a contribution, the last of its slot's. */
void cq_place(struct cq_engine *e, struct cq_slot *slot, const struct cq_part *come)
{
    uint32_t row = cq_free_row(e);
    if (e->freed)
        e->freed--;
    else
        e->untouched++;
    e->row[row] = (struct cq_row){
        .bitmap = come->bitmap, .next = CQ_NONE, .exponent = come->exponent, .flags = come->flags,
    };
    if (slot->kept++)
        e->row[slot->last_row].next = row;
    else
        slot->first_row = row;
    slot->last_row = row;
    if (++e->occupied > e->high_water)
        e->high_water = e->occupied;
}

static void keep(struct cq_engine *e, struct cq_slot *slot, const struct cq_part *come)
{
    cq_keep(e->dtype, cq_row_elements(e, cq_free_row(e)), come, cq_elements_of(e, slot->block));
    cq_place(e, slot, come);
}

/* Add a contribution to what is held of its block. */
static void add(struct cq_engine *e, struct cq_slot *slot, const struct cq_part *come)
{
    if (e->holds) {
        keep(e, slot, come);
        return;
    }
    struct cq_row *row = &e->row[slot->first_row];
    struct cq_part sum = cq_part_of(e, slot->first_row);
    cq_add(e->dtype, cq_row_elements(e, slot->first_row), &sum, come, cq_elements_of(e, slot->block));
    row->bitmap = sum.bitmap;
    row->exponent = sum.exponent;
    row->flags = sum.flags;
}

/* Put parts into ascending order of their lowest contributor. */
static void sort(struct cq_part *parts, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        struct cq_part part = parts[i];
        uint32_t at = i;
        for (; at && __builtin_ctzll(parts[at - 1].bitmap) > __builtin_ctzll(part.bitmap); at--)
            parts[at] = parts[at - 1];
        parts[at] = part;
    }
}

static struct cq_round *round_of(struct cq_engine *e, uint32_t index)
{
    struct cq_round *round = e->live;
    while (!round->seen || round->index != index)
        round++; /* the round of a held block is live */
    return round;
}

/* Let the block in a slot leave, with a last contribution (or null) that needs no memory. */
static void evict(struct cq_engine *e, struct cq_slot *slot, enum cq_cause cause,
                  const struct cq_part *last, int64_t now_ns)
{
    struct cq_round *round = round_of(e, slot->round);
    struct cq_part parts[CQ_SOURCES + 1];
    uint32_t count = 0, row = slot->first_row;
    uint64_t bitmap = 0;
    for (; row != CQ_NONE; row = e->row[row].next) {
        parts[count++] = cq_part_of(e, row);
        e->free_rows[e->freed++] = row;
        e->occupied--;
    }
    if (last)
        parts[count++] = *last;
    for (uint32_t i = 0; i < count; i++)
        bitmap |= parts[i].bitmap;
    cq_release(e, slot);
    if (e->ordered)
        sort(parts, count);
    if (!e->ordered || bitmap == round->mask) {
        cq_emit(e, round, slot->block, parts, count, cause, now_ns);
        return;
    }
    for (uint32_t i = 0; i < count; i++) /* for the receiver to put into order, with others */
        cq_emit(e, round, slot->block, &parts[i], 1, cause, now_ns);
}

/* Slot with room for one more contribution to a block that stays incomplete.
 *
 * A block may have to leave for it, even the own one, which then is not held any more. Null
 * if the contribution has to pass unaggregated. */
static struct cq_slot *make_room(struct cq_engine *e, struct cq_round *round, uint32_t block,
                                 struct cq_slot *held, int64_t now_ns)
{
    struct cq_slot *slot = held ? held : cq_free_way(e, round->index, block), *victim;
    if (!slot) {
        slot = cq_victim_in_set(e, round->index, block);
        if (slot)
            evict(e, slot, CQ_COLLISION, NULL, now_ns);
        return slot;
    }
    if (!e->holds || e->occupied < e->rows)
        return slot;
    victim = cq_victim_anywhere(e, round->index, block);
    if (!victim)
        return NULL;
    evict(e, victim, CQ_COLLISION, NULL, now_ns);
    return victim == slot ? cq_free_way(e, round->index, block) : slot;
}

/* Take one contribution to one block of a live round. */
void cq_take_block(struct cq_engine *e, struct cq_round *round, uint32_t block,
                   const struct cq_part *come, int64_t now_ns)
{
    uint64_t seen = round->seen[block], emitted = round->emitted[block];
    if (seen & come->bitmap) {
        e->rejects[(come->bitmap & ~seen) ? CQ_OVERLAP : CQ_DUPLICATE]++;
        return;
    }
    e->late += emitted != 0;
    round->seen[block] = seen | come->bitmap;
    round->contributions++;
    struct cq_slot *held = seen != emitted ? cq_find(e, round, block) : NULL;
    if ((seen | come->bitmap) == round->mask) {
        if (held)
            evict(e, held, CQ_COMPLETE, come, now_ns);
        else /* nobody else is missing: it never enters the memory */
            cq_emit(e, round, block, come, 1, CQ_COMPLETE, now_ns);
        return;
    }
    struct cq_slot *slot = make_room(e, round, block, held, now_ns);
    if (!slot) {
        cq_emit(e, round, block, come, 1, CQ_BYPASS, now_ns);
    } else if (slot->kept) {
        add(e, slot, come);
    } else {
        cq_occupy(e, slot, round->index, block, now_ns);
        keep(e, slot, come);
    }
}

int64_t cq_next_timeout(const struct cq_engine *e)
{
    if (e->oldest == CQ_NONE)
        return NEVER_NS;
    int64_t due_ns = e->slots[e->oldest].first_ns + e->timeout_ns;
    return due_ns < NEVER_NS ? due_ns : NEVER_NS;
}

/* Let blocks leave that were stored `timeout_ns` ago or earlier. */
void cq_expire(struct cq_engine *e, int64_t now_ns)
{
    while (cq_next_timeout(e) <= now_ns)
        evict(e, &e->slots[e->oldest], CQ_TIMEOUT, NULL, now_ns);
    cq_end_burst(e, now_ns);
}

/* Let the held blocks of a round leave, by ascending number. */
void cq_flush_round(struct cq_engine *e, uint32_t live, int64_t now_ns)
{
    const struct cq_round *round = &e->live[live];
    for (uint32_t block = 0; block < e->blocks; block++)
        if (round->seen[block] != round->emitted[block])
            evict(e, cq_find(e, round, block), CQ_FLUSH, NULL, now_ns);
    cq_end_burst(e, now_ns);
}

uint32_t cq_engine_bytes(void)
{
    return sizeof(struct cq_engine);
}
