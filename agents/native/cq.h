/* What the files of the kernel share: the engine's state and the functions between them.
 *
 * Python allocates all memory and owns it; nothing here allocates, and the only
 * state is the struct that is passed in. Its fields are mirrored, name by name,
 * in layout.py.
 */
#ifndef CQ_H
#define CQ_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) && defined(__gnu_linux__)
#define CQ_FOR_EACH_CPU __attribute__((target_clones("avx2", "default")))
#else
#define CQ_FOR_EACH_CPU
#endif

#define CQ_EXPORT __attribute__((visibility("default")))

enum { CQ_HEADER_BYTES = 56, CQ_CRC_OFFSET = 52, CQ_SOURCES = 64 };
/* The most datagrams of a valid size that 64 kB hold. */
enum { CQ_BUFFER_BYTES = 65536, CQ_MOST_DATAGRAMS = CQ_BUFFER_BYTES / CQ_HEADER_BYTES + 1 };
enum { CQ_NONE = 0xFFFFFFFFu };

enum cq_cause { CQ_COMPLETE = 1, CQ_TIMEOUT, CQ_COLLISION, CQ_FLUSH, CQ_BYPASS, CQ_CAUSES };
enum cq_kind { CQ_HELD = 4, CQ_AGGREGATE_OUT = 5 };
enum cq_policy { CQ_EVICT_OLD, CQ_FORWARD_NEW, CQ_PRIORITY };
enum cq_dtype { CQ_I32 = 1, CQ_I32_EXPONENT, CQ_F32, CQ_BF16 };
enum cq_flag { CQ_SATURATED = 1, CQ_NONFINITE = 2 };

/* Why a datagram is refused; the order is that in which a datagram is checked. */
enum cq_reject {
    CQ_SHORT, CQ_MAGIC, CQ_VERSION, CQ_TYPE, CQ_DTYPE, CQ_JOB, CQ_LENGTH, CQ_CRC,
    CQ_ROUND, CQ_BLOCK, CQ_CLIQUE, CQ_CONTRIBUTOR, CQ_DUPLICATE, CQ_OVERLAP, CQ_TRUNCATED,
    CQ_REJECTS
};

/* What a call ended with. */
enum cq_result { CQ_DONE, CQ_RING_FULL, CQ_EVENTS_FULL, CQ_IDLE, CQ_FAILED };

/* agents.records.EVENT_DTYPE */
struct cq_event {
    int64_t t_ns;
    uint32_t round;
    uint8_t kind, src, cause, exact;
    uint32_t block, count;
    uint64_t value;
};

/* A tag of the table, and a link of the list of all held blocks in order of first arrival. */
struct cq_slot {
    uint64_t bitmap; /* who is in the sum; 0: the slot is free */
    int64_t first_ns;
    uint32_t round, block, row, older, newer;
    int16_t exponent;
    uint8_t flags, unused;
};

/* One round of the run; `seen` is null while the round is not live. */
struct cq_round {
    uint64_t *seen, *emitted; /* by block */
    uint64_t mask, contributions, complete;
    uint64_t datagrams_in, bytes_in, datagrams_out, bytes_out;
    uint32_t clique, unused;
};

/* Consecutive sums that left for the same reason: one event to be. */
struct cq_burst {
    uint64_t bitmap;
    uint32_t round, block, count, cause;
};

struct cq_engine {
    /* what the run is */
    uint32_t rounds, blocks, elements, last_elements, job_id, epoch, source, dtype;
    int64_t start_ns, timeout_ns;
    /* table */
    uint32_t sets, ways, rows, mixes, policy;
    uint32_t occupied, high_water, untouched, freed, oldest, newest;
    struct cq_slot *slots;     /* sets × ways */
    uint8_t *arena;            /* rows × elements × 4 bytes */
    uint32_t *free_rows;       /* rows; the first `freed` are valid */
    struct cq_round *round_of; /* rounds */
    /* resend ring */
    uint8_t *ring;
    uint32_t *sizes;
    int64_t *sent_ns;
    uint64_t next_seq, sent_seq;
    uint32_t ring_rows, row_bytes, burst_limit;
    /* events */
    uint32_t events_used, events_room;
    struct cq_event *events;
    struct cq_burst burst;
    /* counters */
    uint64_t rejects[CQ_REJECTS], emitted[CQ_CAUSES], late, saturated, nonfinite;
    /* where a call that ended early goes on */
    uint32_t cursor, valid_count, run_begin, run_end;
    uint32_t valid[CQ_MOST_DATAGRAMS]; /* offsets of the valid datagrams of the buffer */
    uint32_t valid_size[CQ_MOST_DATAGRAMS];
};

/* Where datagrams come from and go to. */
struct cq_sockets {
    int32_t in, out;
    uint32_t ip, port, most_segments; /* address in host order */
    uint32_t overflow;                /* datagrams lost because the socket was full */
    int32_t error, unused;
    uint64_t buffers;
    uint8_t *buffer; /* CQ_BUFFER_BYTES */
};

/* A contribution, or a sum that leaves: where its elements are and what its header says. */
struct cq_part {
    const uint8_t *elements;
    uint64_t bitmap;
    uint32_t round, block;
    int exponent, flags;
};

static inline uint32_t cq_elements_of(const struct cq_engine *e, uint32_t block)
{
    return block == e->blocks - 1 ? e->last_elements : e->elements;
}

/* crc.c */
CQ_EXPORT uint32_t cq_crc32c(uint32_t crc, const uint8_t *bytes, size_t count);
uint32_t cq_datagram_crc(const uint8_t *datagram, size_t size);

/* sums.c */
int cq_add(uint32_t dtype, uint8_t *out, const struct cq_part *held, const struct cq_part *come,
           uint32_t count, int *exponent);
int cq_nonfinite(const uint8_t *elements, uint32_t count);

/* emit.c: both build in the ring's next row */
void cq_emit(struct cq_engine *e, const struct cq_part *part, enum cq_cause cause, int64_t now_ns);
void cq_emit_sum(struct cq_engine *e, const struct cq_part *held, const struct cq_part *come,
                 enum cq_cause cause, int64_t now_ns);
void cq_event_add(struct cq_engine *e, int64_t now_ns, enum cq_kind kind, uint32_t source,
                  const struct cq_burst *what, uint64_t value);
int cq_room(const struct cq_engine *e);
CQ_EXPORT void cq_end_burst(struct cq_engine *e, int64_t now_ns);

/* table.c */
void cq_take_block(struct cq_engine *e, const struct cq_part *come, int64_t now_ns);
CQ_EXPORT int64_t cq_next_timeout(const struct cq_engine *e);
CQ_EXPORT int cq_expire(struct cq_engine *e, int64_t now_ns);
CQ_EXPORT int cq_flush_round(struct cq_engine *e, uint32_t round, int64_t now_ns);

/* receive.c */
CQ_EXPORT int cq_take(struct cq_engine *e, const uint8_t *buffer, uint32_t length,
                      uint32_t segment, int64_t now_ns);
CQ_EXPORT int cq_resume(struct cq_engine *e, const uint8_t *buffer, int64_t now_ns);

/* serve.c */
CQ_EXPORT int cq_serve(struct cq_engine *e, struct cq_sockets *s, int64_t until_ns);

/* For a check that both sides mean the same struct. */
CQ_EXPORT uint32_t cq_engine_bytes(void);

#endif
