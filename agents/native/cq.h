/* What the files of the kernel share: the engine's state and the functions between them.
 *
 * Python allocates all memory and owns it; nothing here allocates, and the only state is
 * the struct that is passed in. Its fields are mirrored, name by name, in layout.py. What
 * the table does is written down in `agents.aggregator`; the names here are the same.
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

enum { CQ_HEADER_BYTES = 56, CQ_CRC_OFFSET = 52, CQ_FRAME_BYTES = 42, CQ_SOURCES = 64 };
enum { CQ_MAGIC = 0x434E, CQ_VERSION = 1, CQ_DATA = 1, CQ_AGG = 2 };
/* The most datagrams of a valid size that 64 kB hold. */
enum { CQ_BUFFER_BYTES = 65536, CQ_MOST_DATAGRAMS = CQ_BUFFER_BYTES / CQ_HEADER_BYTES + 1 };
enum { CQ_LIVE_ROUNDS = 16, CQ_NONE = 0xFFFFFFFFu };

enum cq_cause { CQ_COMPLETE = 1, CQ_TIMEOUT, CQ_COLLISION, CQ_FLUSH, CQ_BYPASS, CQ_CAUSES };
enum cq_kind { CQ_HELD = 4, CQ_AGGREGATE_OUT = 5 };
enum cq_policy { CQ_EVICT_OLD, CQ_FORWARD_NEW, CQ_PRIORITY };
enum cq_dtype { CQ_I32 = 1, CQ_I32_EXPONENT, CQ_F32, CQ_BF16 };
enum cq_flag { CQ_SATURATED = 1, CQ_NONFINITE = 2 };

/* Why datagrams are refused. */
enum cq_reject {
    CQ_SHORT, CQ_MAGIC_WRONG, CQ_VERSION_WRONG, CQ_TYPE, CQ_DTYPE, CQ_JOB, CQ_LENGTH, CQ_CRC,
    CQ_EPOCH, CQ_ROUND, CQ_BLOCK, CQ_CLIQUE, CQ_CONTRIBUTOR, CQ_DUPLICATE, CQ_OVERLAP,
    CQ_TRUNCATED, CQ_REJECTS
};

/* agents.records.EVENT_DTYPE */
struct cq_event {
    int64_t t_ns;
    uint32_t round;
    uint8_t kind, src, cause, exact;
    uint32_t block, count;
    uint64_t value;
};

/* A tag of the table, and a link of the list of all held blocks in order of storing. */
struct cq_slot {
    int64_t first_ns;
    uint32_t round, block;
    uint32_t kept;                /* rows of the block; 0: the slot is free */
    uint32_t first_row, last_row; /* of the list of these, in order of arrival */
    uint32_t older, newer;
    uint32_t unused;
};

/* A row of the memory: a sum of contributions, or a single one. */
struct cq_row {
    uint64_t bitmap;
    uint32_t next;
    int16_t exponent;
    uint8_t flags, unused;
};

/* A live round; `seen` is null in an entry that is not used. */
struct cq_round {
    uint64_t *seen, *emitted; /* by block */
    uint64_t mask, contributions, complete, datagrams, wire_bytes;
    uint64_t sent_datagrams, sent_bytes; /* by `cq_serve` */
    uint32_t index, clique;
};

/* Consecutive blocks that came or left together: one event. */
struct cq_burst {
    uint64_t bitmap;
    uint32_t round, block, count, cause;
};

/* What the engine wants of whoever called it. */
enum cq_want { CQ_WANT_SENT, CQ_WANT_EVENTS };

struct cq_engine {
    /* what the run is */
    uint32_t blocks, elements, last_elements, element_bytes, job_id, epoch, source, dtype;
    int64_t start_ns, timeout_ns;
    /* table */
    uint32_t sets, ways, rows, mixes, policy, holds, ordered;
    uint32_t occupied, high_water, untouched, freed, oldest, newest;
    uint32_t pitch;            /* bytes from one row of the memory to the next */
    struct cq_slot *slots;     /* sets × ways */
    struct cq_row *row;        /* rows */
    uint8_t *memory;           /* rows × pitch bytes */
    uint32_t *free_rows;       /* the first `freed` of `rows` are valid */
    uint8_t *scratch;          /* elements × 4 bytes */
    const struct cq_pass *passes; /* of `run.c`; null: all goes by `receive.c` */
    struct cq_round live[CQ_LIVE_ROUNDS];
    uint64_t epoch_known;      /* by source, a bit each */
    uint32_t epoch_of[CQ_SOURCES];
    /* resend ring */
    uint8_t *ring;
    uint32_t *sizes;
    int64_t *sent_ns;
    uint64_t next_seq, sent_seq;
    uint32_t ring_rows, row_bytes, send_at;
    uint32_t takes_sums; /* whether other aggregators' sums are added as well */
    /* called when `send_at` datagrams wait, and when the events' chunk is full */
    void (*want)(struct cq_engine *e, int what);
    void *wants; /* for whoever is called */
    /* events */
    struct cq_event *events;
    uint32_t events_used, events_room;
    struct cq_burst burst;
    /* counters */
    uint64_t rejects[CQ_REJECTS], emitted[CQ_CAUSES], late, saturated, nonfinite;
    /* the datagrams of the buffer that passed the first checks */
    uint32_t valid[CQ_MOST_DATAGRAMS], valid_size[CQ_MOST_DATAGRAMS];
};

/* A contribution or a sum: where its elements are, and what its header says of it. */
struct cq_part {
    const uint8_t *elements;
    uint64_t bitmap;
    int16_t exponent;
    uint8_t flags, on_wire; /* whether the elements are as in a datagram, or as in memory */
};

static inline uint32_t cq_elements_of(const struct cq_engine *e, uint32_t block)
{
    return block == e->blocks - 1 ? e->last_elements : e->elements;
}

static inline uint8_t *cq_row_elements(const struct cq_engine *e, uint32_t row)
{
    return e->memory + (size_t)row * e->pitch;
}

/* crc.c */
CQ_EXPORT uint32_t cq_crc32c(uint32_t crc, const uint8_t *bytes, size_t count);
uint32_t cq_datagram_crc(const uint8_t *datagram, size_t size);

/* pass.h: with vectors of one length, and `count` bytes of elements, 256 or more. Each returns
 * the checksum of datagram `p`. */
struct cq_pass {
    uint32_t (*copy)(uint8_t *out, const uint8_t *p, size_t count);
    uint32_t (*add)(uint8_t *sums, const uint8_t *p, size_t count, int *left);
    uint32_t (*sum)(uint8_t *out, const uint8_t *header, const uint8_t *a, const uint8_t *p,
                    size_t count, uint32_t *crc_out, int *left);
};
extern const struct cq_pass cq_pass_wide, cq_pass_narrow;

/* pass.c */
CQ_EXPORT const struct cq_pass *cq_pass(uint32_t vector_bytes); /* null: it has no such ones */

/* sums.c */
void cq_keep(uint32_t dtype, uint8_t *to, const struct cq_part *part, uint32_t count);
void cq_add(uint32_t dtype, uint8_t *to, struct cq_part *sum, const struct cq_part *part,
            uint32_t count);
int cq_leave(uint32_t dtype, uint8_t *to, const uint8_t *from, int on_wire, uint32_t count);

void cq_saturate(uint8_t *sums, const uint8_t *added, uint32_t count);
void cq_subtract(uint8_t *sums, const uint8_t *added, uint32_t count);

/* emit.c */
uint8_t *cq_next_row(struct cq_engine *e);
void cq_write_header(const struct cq_engine *e, uint8_t *row, const struct cq_round *round,
                     uint32_t block, const struct cq_part *sum, enum cq_cause cause,
                     int64_t now_ns);
void cq_commit(struct cq_engine *e, struct cq_round *round, uint32_t block,
               const struct cq_part *sum, enum cq_cause cause, uint32_t crc, int64_t now_ns);
void cq_emit(struct cq_engine *e, struct cq_round *round, uint32_t block,
             const struct cq_part *parts, uint32_t count, enum cq_cause cause, int64_t now_ns);
void cq_event_add(struct cq_engine *e, int64_t now_ns, enum cq_kind kind, uint32_t source,
                  const struct cq_burst *what, uint64_t value);
void cq_end_burst(struct cq_engine *e, int64_t now_ns);

/* slots.c */
struct cq_slot *cq_find(const struct cq_engine *e, const struct cq_round *round, uint32_t block);
struct cq_slot *cq_free_way(const struct cq_engine *e, uint32_t round, uint32_t block);
struct cq_slot *cq_victim_in_set(const struct cq_engine *e, uint32_t round, uint32_t block);
struct cq_slot *cq_victim_anywhere(const struct cq_engine *e, uint32_t round, uint32_t block);
void cq_occupy(struct cq_engine *e, struct cq_slot *slot, uint32_t round, uint32_t block,
               int64_t now_ns);
void cq_release(struct cq_engine *e, struct cq_slot *slot);

/* table.c */
uint32_t cq_free_row(const struct cq_engine *e);
void cq_turn_free_rows(struct cq_engine *e, uint32_t count);
void cq_place(struct cq_engine *e, struct cq_slot *slot, const struct cq_part *come);
struct cq_part cq_part_of(const struct cq_engine *e, uint32_t row);
void cq_take_block(struct cq_engine *e, struct cq_round *round, uint32_t block,
                   const struct cq_part *come, int64_t now_ns);
CQ_EXPORT int64_t cq_next_timeout(const struct cq_engine *e);
CQ_EXPORT void cq_expire(struct cq_engine *e, int64_t now_ns);
CQ_EXPORT void cq_flush_round(struct cq_engine *e, uint32_t live, int64_t now_ns);

/* run.c */
uint32_t cq_take_run(struct cq_engine *e, const uint8_t *buffer, uint32_t length,
                     uint32_t segment, int64_t now_ns);

/* receive.c: what it has in common with run.c */
struct cq_round *cq_live_round(struct cq_engine *e, uint32_t index);
int cq_fault(const struct cq_engine *e, const uint8_t *p, uint32_t size);
int cq_follows(const uint8_t *p, const uint8_t *next);
int cq_misfit(struct cq_engine *e, const struct cq_round *round, const uint8_t *p,
              uint32_t count);
int cq_refusal(const struct cq_engine *e, const struct cq_round *round, const uint8_t *p,
               uint32_t count);
void cq_count_run(struct cq_engine *e, struct cq_round *round, const uint8_t *first,
                  uint32_t count, int64_t now_ns);
CQ_EXPORT void cq_take(struct cq_engine *e, const uint8_t *buffer, uint32_t length,
                       uint32_t segment, int64_t now_ns);

/* How many buffers one call of the system receives: they still fit the second cache, and more
 * would save nothing. */
enum { CQ_BATCH = 16 };

/* A buffer that came: which one it is, its bytes, and those of each datagram but the last. */
struct cq_received {
    uint32_t buffer, length, segment;
};

/* Where datagrams come from and go to. */
struct cq_sockets {
    int32_t in, out;
    uint32_t ip, port, most_segments; /* address in host order */
    uint32_t overflow;                /* datagrams lost because the socket was full */
    int32_t error;
    uint32_t count; /* of the buffers that are left to the caller */
    struct cq_received received[CQ_BATCH];
    uint8_t *buffers; /* CQ_BATCH × CQ_BUFFER_BYTES */
};

/* Why `cq_serve` came back: buffers came when the time was over; nothing came for a while, or
 * a signal did; a call of the system failed. */
enum cq_served { CQ_DUE, CQ_IDLE, CQ_FAILED };

/* serve.c */
CQ_EXPORT int cq_serve(struct cq_engine *e, struct cq_sockets *s, int64_t until_ns);

/* For a check that both sides mean the same struct. */
CQ_EXPORT uint32_t cq_engine_bytes(void);

#endif
