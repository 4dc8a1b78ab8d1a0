/* CRC-32C by carry-less products of whole vectors (Gopal et al., "Fast CRC Computation for
 * Generic Polynomials Using PCLMULQDQ Instruction", 2009), for processors that have them. */
#ifndef CQ_FOLDING_H
#define CQ_FOLDING_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define WITH_CRC __attribute__((target("sse4.2,pclmul")))
#define WITH_FOLDING __attribute__((target("avx2,vpclmulqdq,pclmul,sse4.2")))
#define FOLDING_INLINE WITH_FOLDING static inline __attribute__((always_inline))

static inline uint64_t word(const uint8_t *p)
{
    uint64_t value;
    memcpy(&value, p, 8);
    return value;
}

FOLDING_INLINE __m256i bytes_at(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

/* `sum` moved up by the bytes that `powers` stand for, and `next` added: for each half of
 * 16 bytes x^(8·bytes + 31) and x^(8·bytes − 33) mod P, bit-reversed. */
FOLDING_INLINE __m256i folded(__m256i sum, __m256i powers, __m256i next)
{
    __m256i low = _mm256_clmulepi64_epi128(sum, powers, 0x00);
    __m256i high = _mm256_clmulepi64_epi128(sum, powers, 0x11);
    return _mm256_xor_si256(_mm256_xor_si256(low, high), next);
}

FOLDING_INLINE __m256i by_128(void)
{
    return _mm256_set_epi64x(0x0D3B6092, 0x6992CEA2, 0x0D3B6092, 0x6992CEA2);
}

FOLDING_INLINE __m256i by_96(void)
{
    return _mm256_set_epi64x(0x0715CE53, 0xC49F4F67, 0x0715CE53, 0xC49F4F67);
}

FOLDING_INLINE __m256i by_64(void)
{
    return _mm256_set_epi64x(0x9E4ADDF8, 0x740EEF02, 0x9E4ADDF8, 0x740EEF02);
}

FOLDING_INLINE __m256i by_32(void)
{
    return _mm256_set_epi64x(0xBA4FC28E, 0x3DA6D0CB, 0xBA4FC28E, 0x3DA6D0CB);
}

/* 128 bytes that stand for all that came before; four, because a product takes four cycles
 * but one can start in each. */
struct folds {
    __m256i a, b, c, d;
};

FOLDING_INLINE struct folds folds_begin(uint32_t crc, __m256i a, __m256i b, __m256i c, __m256i d)
{
    return (struct folds){_mm256_xor_si256(a, _mm256_set_epi64x(0, 0, 0, crc)), b, c, d};
}

FOLDING_INLINE void folds_next(struct folds *f, __m256i a, __m256i b, __m256i c, __m256i d)
{
    f->a = folded(f->a, by_128(), a);
    f->b = folded(f->b, by_128(), b);
    f->c = folded(f->c, by_128(), c);
    f->d = folded(f->d, by_128(), d);
}

/* The last 32 bytes that stand for all. */
FOLDING_INLINE __m256i folds_end(const struct folds *f)
{
    __m256i d = folded(f->c, by_32(), f->d);
    return folded(f->a, by_96(), folded(f->b, by_64(), d));
}

#endif
