/* One pass over a datagram's elements for all that has to be done with them: its checksum is
 * verified while they are copied or added, and that of the sum is formed at once.
 *
 * A file for each length of vectors includes this. */
#include "cq.h"
#include "folding.h"

#include <string.h>

enum mode { COPY, ADD, SUM };
enum { STRIDE = 128, VECTORS = STRIDE / VECTOR_BYTES };
enum { RING_AHEAD = 3 }; /* rows: the ring is in no cache, and one row takes less than that far */

/* Keep a vector that was loaded: the compiler would load it anew wherever it is an operand. */
FOLDING_INLINE vector kept(vector v)
{
    __asm__("" : "+v"(v));
    return v;
}

FOLDING_INLINE void fetch(const uint8_t *p)
{
    __builtin_prefetch(p, 1);
    __builtin_prefetch(p + 64, 1);
}

FOLDING_INLINE uint64_t crc_of(uint64_t crc, const uint8_t *p, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        uint64_t eight;
        memcpy(&eight, p + i, sizeof eight);
        crc = _mm_crc32_u64(crc, eight);
    }
    if (i < count) {
        uint32_t four;
        memcpy(&four, p + i, sizeof four);
        crc = _mm_crc32_u32((uint32_t)crc, four);
    }
    return crc;
}

/* The state after a datagram's header, its own checksum field taken as 0. */
FOLDING_INLINE uint32_t header_crc(const uint8_t *header)
{
    return _mm_crc32_u32((uint32_t)crc_of(~0u, header, CQ_CRC_OFFSET), 0);
}

/* A datagram on its way. */
struct work {
    uint8_t *out;
    const uint8_t *a, *b;
    vector left; /* the sign of an element says that a sum left int32 */
    /* What stands for all that came before: several vectors, because a product takes longer
     * than until the next one can start. */
    vector in[VECTORS], from[VECTORS];
};

/* Copy a vector, or add it to another: the sum of two numbers of one sign has that sign, or it
 * left int32. */
FOLDING_INLINE vector step(struct work *w, size_t at, vector y, enum mode mode)
{
    vector sum = y;
    if (mode != COPY) {
        vector x = kept(bytes_at(w->a + at));
        sum = (vector)((elements)x + (elements)y);
        w->left |= (x ^ sum) & (y ^ sum);
    }
    *(at_any_address *)(w->out + at) = sum;
    return sum;
}

FOLDING_INLINE void stride(struct work *w, size_t at, enum mode mode, int first)
{
    for (size_t i = 0; i < VECTORS; i++, at += VECTOR_BYTES) {
        vector y = kept(bytes_at(w->b + at)), sum = step(w, at, y, mode);
        w->in[i] = first ? (vector)(w->in[i] ^ y) : folded(w->in[i], BY_128, y);
        if (mode == SUM)
            w->from[i] = first ? (vector)(w->from[i] ^ sum) : folded(w->from[i], BY_128, sum);
    }
}

/* The last vector that stands for all. */
FOLDING_INLINE vector together(const vector *each)
{
    vector rest = each[0];
    for (int i = 1; i < VECTORS; i++)
        rest = folded(rest, BY_VECTOR, each[i]);
    return rest;
}

/* The checksum, from the vector that stands for all before, and the last `count` bytes. */
FOLDING_INLINE uint32_t finish(vector rest, const uint8_t *tail, size_t count)
{
    words last = (words)rest;
    uint64_t crc = 0;
    for (int i = 0; i < VECTOR_BYTES / 8; i++)
        crc = _mm_crc32_u64(crc, last[i]);
    return ~(uint32_t)crc_of(crc, tail, count);
}

/* Copy `b`, or add it to `a`, into `out`; `crc` is that over `b`, `crc_out` (SUM) over `out`.
 *
 * A row of the ring that follows on this one is fetched into the cache meanwhile (SUM); any
 * address will do for that. */
FOLDING_INLINE uint32_t run(uint8_t *out, const uint8_t *a, const uint8_t *b, size_t count,
                            uint32_t crc, uint32_t *crc_out, int *left, enum mode mode)
{
    struct work w = {.out = out, .a = a, .b = b};
    w.in[0] = (vector)(elements){crc};
    if (mode == SUM)
        w.from[0] = (vector)(elements){*crc_out};
    stride(&w, 0, mode, 1);
    size_t at = STRIDE;
    for (; at + STRIDE <= count; at += STRIDE) {
        stride(&w, at, mode, 0);
        if (mode == SUM)
            fetch(out + RING_AHEAD * (count + CQ_HEADER_BYTES) + at - STRIDE);
    }
    vector in = together(w.in), from = mode == SUM ? together(w.from) : in;
    for (; at + VECTOR_BYTES <= count; at += VECTOR_BYTES) {
        vector y = kept(bytes_at(b + at)), sum = step(&w, at, y, mode);
        in = folded(in, BY_VECTOR, y);
        if (mode == SUM)
            from = folded(from, BY_VECTOR, sum);
    }
    uint32_t any = any_negative(w.left);
    for (size_t i = at; i < count; i += 4) {
        uint32_t x = 0, y, sum;
        memcpy(&y, b + i, 4);
        if (mode != COPY)
            memcpy(&x, a + i, 4);
        sum = x + y;
        any |= ((x ^ sum) & (y ^ sum)) >> 31;
        memcpy(out + i, &sum, 4);
    }
    *left = (int)any;
    if (mode == SUM)
        *crc_out = finish(from, out + at, count - at);
    return finish(in, b + at, count - at);
}

WITH_FOLDING static uint32_t pass_copy(uint8_t *out, const uint8_t *p, size_t count)
{
    const uint8_t *b = p + CQ_HEADER_BYTES;
    int left;
    return run(out, b, b, count, header_crc(p), NULL, &left, COPY);
}

WITH_FOLDING static uint32_t pass_add(uint8_t *sums, const uint8_t *p, size_t count, int *left)
{
    return run(sums, sums, p + CQ_HEADER_BYTES, count, header_crc(p), NULL, left, ADD);
}

WITH_FOLDING static uint32_t pass_sum(uint8_t *out, const uint8_t *header, const uint8_t *a,
                                      const uint8_t *p, size_t count, uint32_t *crc_out,
                                      int *left)
{
    *crc_out = header_crc(header);
    return run(out, a, p + CQ_HEADER_BYTES, count, header_crc(p), crc_out, left, SUM);
}
