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

/* The state after a datagram's header, its own checksum field taken as 0. */
FOLDING_INLINE uint32_t header_crc(const uint8_t *header)
{
    uint64_t crc = ~0u;
    uint32_t last;
    for (int i = 0; i < 48; i += 8)
        crc = _mm_crc32_u64(crc, word(header + i));
    memcpy(&last, header + 48, sizeof last);
    return _mm_crc32_u32(_mm_crc32_u32((uint32_t)crc, last), 0);
}

/* The checksum, from the 32 bytes that stand for all before, and the last `count` ones. */
FOLDING_INLINE uint32_t finish(__m256i rest, const uint8_t *tail, size_t count)
{
    uint64_t crc = _mm_crc32_u64(0, (uint64_t)_mm256_extract_epi64(rest, 0));
    crc = _mm_crc32_u64(crc, (uint64_t)_mm256_extract_epi64(rest, 1));
    crc = _mm_crc32_u64(crc, (uint64_t)_mm256_extract_epi64(rest, 2));
    crc = _mm_crc32_u64(crc, (uint64_t)_mm256_extract_epi64(rest, 3));
    for (size_t i = 0; i < count; i += 4) {
        uint32_t four;
        memcpy(&four, tail + i, sizeof four);
        crc = _mm_crc32_u32((uint32_t)crc, four);
    }
    return ~(uint32_t)crc;
}

/* Copy `b`, or add it to `a`, into `out`; `crc` is that over `b`, `crc_out` (SUM) over `out`.
 *
 * What the next pass will write is fetched into the cache meanwhile: `ahead`, and (SUM) the
 * row of the ring that follows on this one. */
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
        if (mode == SUM)
            fetch(out + count + CQ_HEADER_BYTES + at);
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
        memcpy(&y, b + i, 4);
        if (mode != COPY)
            memcpy(&x, a + i, 4);
        sum = x + y;
        any |= (int32_t)((x ^ sum) & (y ^ sum)) < 0;
        memcpy(out + i, &sum, 4);
    }
    *left = any;
    if (mode == SUM)
        *crc_out = finish(rest, out + at, count - at);
    return finish(rest_in, b + at, count - at);
}

WITH_FOLDING uint32_t cq_pass_copy(uint8_t *out, const uint8_t *p, size_t count)
{
    const uint8_t *b = p + CQ_HEADER_BYTES;
    int left;
    return run(out, b, b, count, b, header_crc(p), NULL, &left, COPY);
}

WITH_FOLDING uint32_t cq_pass_add(uint8_t *sums, const uint8_t *p, size_t count,
                                  const uint8_t *ahead, int *left)
{
    return run(sums, sums, p + CQ_HEADER_BYTES, count, ahead, header_crc(p), NULL, left, ADD);
}

WITH_FOLDING uint32_t cq_pass_sum(uint8_t *out, const uint8_t *header, const uint8_t *a,
                                  const uint8_t *p, size_t count, const uint8_t *ahead,
                                  uint32_t *crc_out, int *left)
{
    *crc_out = header_crc(header);
    return run(out, a, p + CQ_HEADER_BYTES, count, ahead, header_crc(p), crc_out, left, SUM);
}

#else /* never called: `cq_folds` says no */
uint32_t cq_pass_copy(uint8_t *out, const uint8_t *p, size_t count)
{
    (void)out, (void)p, (void)count;
    return 0;
}

uint32_t cq_pass_add(uint8_t *sums, const uint8_t *p, size_t count, const uint8_t *ahead, int *left)
{
    (void)sums, (void)p, (void)count, (void)ahead, (void)left;
    return 0;
}

uint32_t cq_pass_sum(uint8_t *out, const uint8_t *header, const uint8_t *a, const uint8_t *p,
                     size_t count, const uint8_t *ahead, uint32_t *crc_out, int *left)
{
    (void)out, (void)header, (void)a, (void)p, (void)count, (void)ahead, (void)crc_out, (void)left;
    return 0;
}
#endif
