/* CRC-32C by carry-less products of whole vectors (Gopal et al., "Fast CRC Computation for
 * Generic Polynomials Using PCLMULQDQ Instruction", 2009), for processors that have them.
 *
 * Whoever includes this says by VECTOR_BYTES, 32 or 64, how long a vector is. */
#ifndef CQ_FOLDING_H
#define CQ_FOLDING_H

#include <immintrin.h>
#include <stdint.h>

#if VECTOR_BYTES == 64
#define WITH_FOLDING __attribute__((target("avx512f,avx512dq,vpclmulqdq,pclmul,sse4.2")))
typedef __m512i vector;
#else
#define WITH_FOLDING __attribute__((target("avx2,vpclmulqdq,pclmul,sse4.2")))
typedef __m256i vector;
#endif
typedef uint32_t elements __attribute__((vector_size(VECTOR_BYTES)));
typedef uint64_t words __attribute__((vector_size(VECTOR_BYTES)));
typedef vector at_any_address __attribute__((aligned(1), may_alias));

#define FOLDING_INLINE WITH_FOLDING static inline __attribute__((always_inline))

FOLDING_INLINE vector bytes_at(const uint8_t *p)
{
    return *(const at_any_address *)p;
}

/* By how far a vector is moved: for each half of its 16-byte lanes x^(8·bytes + 31) and
 * x^(8·bytes − 33) mod P, bit-reversed. */
struct distance {
    uint32_t low, high;
};

static const struct distance BY_128 = {0x6992CEA2, 0x0D3B6092}, BY_64 = {0x740EEF02, 0x9E4ADDF8},
                             BY_32 = {0x3DA6D0CB, 0xBA4FC28E};

#define BY_VECTOR (VECTOR_BYTES == 64 ? BY_64 : BY_32)

/* `sum` moved up, and `next` added. */
FOLDING_INLINE vector folded(vector sum, struct distance by, vector next)
{
#if VECTOR_BYTES == 64
    vector powers = _mm512_broadcast_i64x2(_mm_set_epi64x(by.high, by.low));
    return _mm512_clmulepi64_epi128(sum, powers, 0x00)
        ^ _mm512_clmulepi64_epi128(sum, powers, 0x11) ^ next;
#else
    vector powers = _mm256_set_epi64x(by.high, by.low, by.high, by.low);
    return _mm256_clmulepi64_epi128(sum, powers, 0x00)
        ^ _mm256_clmulepi64_epi128(sum, powers, 0x11) ^ next;
#endif
}

FOLDING_INLINE int any_negative(vector numbers)
{
#if VECTOR_BYTES == 64
    return _mm512_movepi32_mask(numbers) != 0;
#else
    return _mm256_movemask_ps((__m256)numbers) != 0;
#endif
}

#endif
