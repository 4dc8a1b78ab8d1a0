/* One pass over a datagram's elements for all that has to be done with them: its checksum is
 * verified while they are copied or added, and that of the sum is formed at once. */
#include "cq.h"

#ifdef __x86_64__
#include "folding.h"

enum mode { COPY, ADD, SUM };

/* Copy 32 bytes, or add them to others; the sign of an element of `left` says that its sum left
 * int32: the sum of two numbers of one sign has the other sign. */
FOLDING_INLINE __m256i step(uint8_t *out, const uint8_t *a, __m256i y, __m256i *left,
                            enum mode mode)
{
    __m256i sum = y;
    if (mode != COPY) {
        __m256i x = bytes_at(a);
        sum = _mm256_add_epi32(x, y);
        *left = _mm256_or_si256(
            *left, _mm256_and_si256(_mm256_xor_si256(x, sum), _mm256_xor_si256(y, sum)));
    }
    _mm256_storeu_si256((__m256i *)out, sum);
    return sum;
}

FOLDING_INLINE void fetch(const uint8_t *p)
{
    __builtin_prefetch(p, 1);
    __builtin_prefetch(p + 64, 1);
}

FOLDING_INLINE uint32_t finish(__m256i rest, const uint8_t *tail, size_t count)
{
    uint8_t last[32];
    _mm256_storeu_si256((__m256i *)last, rest);
    return cq_crc_update(cq_crc_update(0, last, sizeof last), tail, count);
}

/* Copy `b`, or add it to `a`, into `out`; `crc` is that over `b`, `crc_out` (SUM) over `out`.
 *
 * What the next pass will write, `ahead`, is fetched into the cache meanwhile. */
FOLDING_INLINE uint32_t run(uint8_t *out, const uint8_t *a, const uint8_t *b, size_t count,
                            const uint8_t *ahead, uint32_t crc, uint32_t *crc_out, int *left,
                            enum mode mode)
{
    __m256i signs = _mm256_setzero_si256();
    struct folds in, from;
    size_t at = 0;
    for (int first = 1; at + 128 <= count; at += 128, first = 0) {
        __m256i y0 = bytes_at(b + at), y1 = bytes_at(b + at + 32);
        __m256i y2 = bytes_at(b + at + 64), y3 = bytes_at(b + at + 96);
        __m256i s0 = step(out + at, a + at, y0, &signs, mode);
        __m256i s1 = step(out + at + 32, a + at + 32, y1, &signs, mode);
        __m256i s2 = step(out + at + 64, a + at + 64, y2, &signs, mode);
        __m256i s3 = step(out + at + 96, a + at + 96, y3, &signs, mode);
        fetch(ahead + at);
        if (first) {
            in = folds_begin(crc, y0, y1, y2, y3);
            from = mode == SUM ? folds_begin(*crc_out, s0, s1, s2, s3) : in;
        } else {
            folds_next(&in, y0, y1, y2, y3);
            if (mode == SUM)
                folds_next(&from, s0, s1, s2, s3);
        }
    }
    __m256i rest_in = folds_end(&in), rest = mode == SUM ? folds_end(&from) : rest_in;
    for (; at + 32 <= count; at += 32) {
        __m256i y = bytes_at(b + at), sum = step(out + at, a + at, y, &signs, mode);
        rest_in = folded(rest_in, by_32(), y);
        if (mode == SUM)
            rest = folded(rest, by_32(), sum);
    }
    int any = _mm256_movemask_ps(_mm256_castsi256_ps(signs)) != 0;
    for (size_t i = at; i < count; i += 4) {
        uint32_t x = 0, y, sum;
        __builtin_memcpy(&y, b + i, 4);
        if (mode != COPY)
            __builtin_memcpy(&x, a + i, 4);
        sum = x + y;
        any |= (int32_t)((x ^ sum) & (y ^ sum)) < 0;
        __builtin_memcpy(out + i, &sum, 4);
    }
    *left = any;
    if (mode == SUM)
        *crc_out = finish(rest, out + at, count - at);
    return finish(rest_in, b + at, count - at);
}

WITH_FOLDING uint32_t cq_pass_copy(uint8_t *out, const uint8_t *b, size_t count, uint32_t crc)
{
    int left;
    return run(out, b, b, count, b, crc, &crc, &left, COPY);
}

WITH_FOLDING uint32_t cq_pass_add(uint8_t *sums, const uint8_t *b, size_t count,
                                  const uint8_t *ahead, uint32_t crc, int *left)
{
    return run(sums, sums, b, count, ahead, crc, &crc, left, ADD);
}

WITH_FOLDING uint32_t cq_pass_sum(uint8_t *out, const uint8_t *a, const uint8_t *b, size_t count,
                                  const uint8_t *ahead, uint32_t crc, uint32_t *crc_out,
                                  int *left)
{
    return run(out, a, b, count, ahead, crc, crc_out, left, SUM);
}

#else /* never called: `cq_folds` says no */
uint32_t cq_pass_copy(uint8_t *out, const uint8_t *b, size_t count, uint32_t crc)
{
    (void)out, (void)b, (void)count;
    return crc;
}

uint32_t cq_pass_add(uint8_t *sums, const uint8_t *b, size_t count, const uint8_t *ahead,
                     uint32_t crc, int *left)
{
    (void)sums, (void)b, (void)count, (void)ahead, (void)left;
    return crc;
}

uint32_t cq_pass_sum(uint8_t *out, const uint8_t *a, const uint8_t *b, size_t count,
                     const uint8_t *ahead, uint32_t crc, uint32_t *crc_out, int *left)
{
    (void)out, (void)a, (void)b, (void)count, (void)ahead, (void)crc_out, (void)left;
    return crc;
}
#endif
