/* Where a block lies: sets of slots, their tags, the order of storing, and who has to go. */
#include "cq.h"

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
    uint32_t set = block;
    if (e->mixes)
        set = (uint32_t)(mixed(round, block) % e->sets);
    else if (block >= e->sets) /* dividing takes long */
        set = block % e->sets;
    return e->slots + (size_t)set * e->ways;
}

/* Slot of a held block. */
struct cq_slot *cq_find(const struct cq_engine *e, const struct cq_round *round, uint32_t block)
{
    struct cq_slot *slot = set_of(e, round->index, block);
    for (uint32_t way = 1; way < e->ways; way++, slot++)
        if (slot->kept && slot->round == round->index && slot->block == block)
            break;
    return slot; /* if it was in no other, it is in the last way */
}

/* Lowest free way of a block's set, or null. */
struct cq_slot *cq_free_way(const struct cq_engine *e, uint32_t round, uint32_t block)
{
    struct cq_slot *slot = set_of(e, round, block);
    for (uint32_t way = 0; way < e->ways; way++, slot++)
        if (!slot->kept)
            return slot;
    return NULL;
}

/* How urgent a block is, seen from round `from`: less is more. Rounds are serial numbers
 * (RFC 1982). */
static uint64_t rank(uint32_t round, uint32_t block, uint32_t from)
{
    return (uint64_t)(uint32_t)(round - from + 0x80000000u) << 32 | block;
}

/* Of the taken slots among `count`, the least urgent if it is less urgent than the newcomer. */
static struct cq_slot *less_urgent(struct cq_slot *slots, uint64_t count, uint32_t round,
                                   uint32_t block)
{
    uint64_t greatest = rank(round, block, round);
    struct cq_slot *found = NULL;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t own = slots[i].kept ? rank(slots[i].round, slots[i].block, round) : 0;
        if (own > greatest) {
            greatest = own;
            found = &slots[i];
        }
    }
    return found;
}

/* Whose slot of a full set a block gets; null: the block itself has to go. */
struct cq_slot *cq_victim_in_set(const struct cq_engine *e, uint32_t round, uint32_t block)
{
    struct cq_slot *set = set_of(e, round, block), *oldest = set;
    if (e->policy == CQ_FORWARD_NEW)
        return NULL;
    if (e->policy == CQ_PRIORITY)
        return less_urgent(set, e->ways, round, block);
    for (uint32_t way = 1; way < e->ways; way++)
        if (set[way].first_ns < oldest->first_ns)
            oldest = &set[way];
    return oldest;
}

/* Whose rows of a full memory a block gets; null: the contribution itself has to go. */
struct cq_slot *cq_victim_anywhere(const struct cq_engine *e, uint32_t round, uint32_t block)
{
    if (e->policy == CQ_FORWARD_NEW)
        return NULL;
    if (e->policy == CQ_PRIORITY)
        return less_urgent(e->slots, (uint64_t)e->sets * e->ways, round, block);
    return &e->slots[e->oldest];
}

/* Tag a free slot, behind all others in the order of storing. */
void cq_occupy(struct cq_engine *e, struct cq_slot *slot, uint32_t round, uint32_t block,
               int64_t now_ns)
{
    uint32_t index = (uint32_t)(slot - e->slots);
    slot->round = round;
    slot->block = block;
    slot->first_ns = now_ns;
    slot->older = e->newest;
    slot->newer = CQ_NONE;
    if (e->newest == CQ_NONE)
        e->oldest = index;
    else
        e->slots[e->newest].newer = index;
    e->newest = index;
}

void cq_release(struct cq_engine *e, struct cq_slot *slot)
{
    if (slot->older == CQ_NONE)
        e->oldest = slot->newer;
    else
        e->slots[slot->older].newer = slot->newer;
    if (slot->newer == CQ_NONE)
        e->newest = slot->older;
    else
        e->slots[slot->newer].older = slot->older;
    slot->kept = 0;
}
