/* The memory of sums still incomplete: look up, add, and decide who leaves. */
#include "cq.h"

#include <string.h>

static const int64_t NEVER_NS = (int64_t)1 << 62;

/* The finaliser of SplitMix64 (Steele, Lea and Flood 2014) over round and block. */
static uint64_t mixed(uint64_t round, uint64_t block)
{
    uint64_t key = (block + 1 + (round << 32)) * 0x9E3779B97F4A7C15u;
    key = (key ^ key >> 30) * 0xBF58476D1CE4E5B9u;
    key = (key ^ key >> 27) * 0x94D049BB133111EBu;
    return key ^ key >> 31;
}

static struct cq_slot *set_of(const struct cq_engine *e, uint32_t round, uint32_t block)
{
    uint32_t set = e->mixes ? (uint32_t)(mixed(round, block) % e->sets) : block % e->sets;
    return e->slots + (size_t)set * e->ways;
}

static struct cq_slot *find(const struct cq_engine *e, uint32_t round, uint32_t block)
{
    struct cq_slot *slot = set_of(e, round, block);
    for (uint32_t way = 1; way < e->ways; way++, slot++)
        if (slot->bitmap && slot->round == round && slot->block == block)
            break;
    return slot; /* the caller knows that it is in one of them */
}

static uint8_t *elements_of(const struct cq_engine *e, const struct cq_slot *slot)
{
    return e->arena + (size_t)slot->row * e->elements * 4;
}

static struct cq_part part_of(const struct cq_engine *e, const struct cq_slot *slot)
{
    return (struct cq_part){
        .elements = elements_of(e, slot), .bitmap = slot->bitmap, .round = slot->round,
        .block = slot->block, .exponent = slot->exponent, .flags = slot->flags,
    };
}

/* Put a slot behind all others in the order of arrival. */
static void append(struct cq_engine *e, struct cq_slot *slot)
{
    uint32_t index = (uint32_t)(slot - e->slots);
    slot->older = e->newest;
    slot->newer = CQ_NONE;
    if (e->newest == CQ_NONE)
        e->oldest = index;
    else
        e->slots[e->newest].newer = index;
    e->newest = index;
}

static void release(struct cq_engine *e, struct cq_slot *slot)
{
    if (slot->older == CQ_NONE)
        e->oldest = slot->newer;
    else
        e->slots[slot->older].newer = slot->newer;
    if (slot->newer == CQ_NONE)
        e->newest = slot->older;
    else
        e->slots[slot->newer].older = slot->older;
    /* The row freed last is used first: only as much memory is touched as is held at once. */
    e->free_rows[e->freed++] = slot->row;
    slot->bitmap = 0;
    e->occupied--;
}

static void evict(struct cq_engine *e, struct cq_slot *slot, enum cq_cause cause, int64_t now_ns)
{
    struct cq_part sum = part_of(e, slot);
    cq_emit(e, &sum, cause, now_ns);
    release(e, slot);
}

static void occupy(struct cq_engine *e, struct cq_slot *slot, const struct cq_part *come,
                   int64_t now_ns)
{
    slot->row = e->freed ? e->free_rows[--e->freed] : e->untouched++;
    slot->bitmap = come->bitmap;
    slot->first_ns = now_ns;
    slot->round = come->round;
    slot->block = come->block;
    slot->exponent = (int16_t)come->exponent;
    slot->flags = (uint8_t)come->flags;
    memcpy(elements_of(e, slot), come->elements, 4 * cq_elements_of(e, come->block));
    append(e, slot);
    if (++e->occupied > e->high_water)
        e->high_water = e->occupied;
}

/* A free slot of the block's set, or the one whose block has to make way; null: the newcomer. */
static struct cq_slot *choose(const struct cq_engine *e, const struct cq_part *come)
{
    struct cq_slot *set = set_of(e, come->round, come->block), *victim = set;
    for (uint32_t way = 0; way < e->ways; way++) {
        struct cq_slot *slot = set + way;
        if (!slot->bitmap)
            return slot;
        if (e->policy == CQ_PRIORITY
                ? slot->round > victim->round
                      || (slot->round == victim->round && slot->block > victim->block)
                : slot->first_ns < victim->first_ns)
            victim = slot;
    }
    if (e->policy == CQ_FORWARD_NEW)
        return NULL;
    if (e->policy == CQ_PRIORITY
        && (come->round > victim->round
            || (come->round == victim->round && come->block > victim->block)))
        return NULL;
    return victim;
}

/* Take one contribution to one block of a live round. */
void cq_take_block(struct cq_engine *e, const struct cq_part *come, int64_t now_ns)
{
    struct cq_round *round = &e->round_of[come->round];
    uint64_t seen = round->seen[come->block], emitted = round->emitted[come->block];
    if (seen & come->bitmap) {
        e->rejects[(come->bitmap & ~seen) ? CQ_OVERLAP : CQ_DUPLICATE]++;
        return;
    }
    round->seen[come->block] = seen | come->bitmap;
    round->contributions++;
    e->late += emitted != 0;
    int completes = (seen | come->bitmap) == round->mask;
    if (seen != emitted) {
        struct cq_slot *slot = find(e, come->round, come->block);
        struct cq_part held = part_of(e, slot);
        if (completes) {
            cq_emit_sum(e, &held, come, CQ_COMPLETE, now_ns);
            release(e, slot);
            return;
        }
        int exponent;
        slot->flags = (uint8_t)cq_add(e->dtype, elements_of(e, slot), &held, come,
                                      cq_elements_of(e, come->block), &exponent);
        slot->exponent = (int16_t)exponent;
        slot->bitmap |= come->bitmap;
        return;
    }
    if (completes) { /* nobody else is missing: it never enters the memory */
        cq_emit(e, come, CQ_COMPLETE, now_ns);
        return;
    }
    struct cq_slot *slot = choose(e, come);
    if (!slot) {
        cq_emit(e, come, CQ_BYPASS, now_ns);
        return;
    }
    if (slot->bitmap)
        evict(e, slot, CQ_COLLISION, now_ns);
    occupy(e, slot, come, now_ns);
}

int64_t cq_next_timeout(const struct cq_engine *e)
{
    return e->oldest == CQ_NONE ? NEVER_NS : e->slots[e->oldest].first_ns + e->timeout_ns;
}

/* Let sums leave whose first contribution came `timeout_ns` ago or earlier. */
int cq_expire(struct cq_engine *e, int64_t now_ns)
{
    int full = CQ_DONE;
    while (cq_next_timeout(e) <= now_ns && (full = cq_room(e)) == CQ_DONE)
        evict(e, &e->slots[e->oldest], CQ_TIMEOUT, now_ns);
    return full;
}

/* Let the held sums of a round leave; a call that ended early goes on where it was. */
int cq_flush_round(struct cq_engine *e, uint32_t index, int64_t now_ns)
{
    const struct cq_round *round = &e->round_of[index];
    for (; e->cursor < e->blocks; e->cursor++) {
        if (round->seen[e->cursor] == round->emitted[e->cursor])
            continue;
        int full = cq_room(e);
        if (full != CQ_DONE)
            return full;
        evict(e, find(e, index, e->cursor), CQ_FLUSH, now_ns);
    }
    return CQ_DONE;
}

uint32_t cq_engine_bytes(void)
{
    return sizeof(struct cq_engine);
}
