/* CRC-32C (Castagnoli, RFC 3720 section B.4): the processor's instruction where there is one. */
#include "cq.h"

#include <string.h>

enum { POLYNOMIAL = (int)0x82F63B78 }; /* bit-reversed */

static uint32_t tables[8][256]; /* constant once the library is loaded */

__attribute__((constructor)) static void make_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? (uint32_t)POLYNOMIAL : 0);
        tables[0][i] = crc;
    }
    for (int t = 1; t < 8; t++)
        for (int i = 0; i < 256; i++)
            tables[t][i] = tables[t - 1][i] >> 8 ^ tables[0][tables[t - 1][i] & 0xFF];
}

/* Eight bytes a step; the table of each says what its byte becomes when the rest has passed. */
static uint32_t by_table(uint32_t crc, const uint8_t *p, size_t n)
{
    for (; n >= 8; p += 8, n -= 8) {
        uint32_t low = crc ^ (p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24);
        crc = tables[7][low & 0xFF] ^ tables[6][low >> 8 & 0xFF] ^ tables[5][low >> 16 & 0xFF]
            ^ tables[4][low >> 24] ^ tables[3][p[4]] ^ tables[2][p[5]] ^ tables[1][p[6]]
            ^ tables[0][p[7]];
    }
    for (; n; p++, n--)
        crc = crc >> 8 ^ tables[0][(crc ^ *p) & 0xFF];
    return crc;
}

#ifdef __x86_64__
#include <immintrin.h>

static inline uint64_t word(const uint8_t *p)
{
    uint64_t value;
    memcpy(&value, p, 8);
    return value;
}

#define WITH_CRC __attribute__((target("sse4.2,pclmul")))

/* The remainder of `crc` moved up by the bytes of which `power` is x^(8·bytes − 33) mod P,
 * bit-reversed: the product has one factor x more in this order of bits, and the instruction
 * that reduces it multiplies by x^32. */
WITH_CRC static inline uint32_t moved(uint64_t crc, uint64_t power)
{
    __m128i product = _mm_clmulepi64_si128(
        _mm_cvtsi64_si128((long long)crc), _mm_cvtsi64_si128((long long)power), 0);
    return (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

/* The instruction takes three cycles but one can start in each: three parts at a time. */
WITH_CRC static inline uint32_t in_threes(uint32_t crc, const uint8_t *p, size_t part,
                                          uint64_t by_two_parts, uint64_t by_one_part)
{
    uint64_t a = crc, b = 0, c = 0;
    for (size_t i = 0; i < part; i += 8) {
        a = _mm_crc32_u64(a, word(p + i));
        b = _mm_crc32_u64(b, word(p + part + i));
        c = _mm_crc32_u64(c, word(p + 2 * part + i));
    }
    return moved(a, by_two_parts) ^ moved(b, by_one_part) ^ (uint32_t)c;
}

WITH_CRC static uint32_t by_instruction(uint32_t crc, const uint8_t *p, size_t n)
{
    enum { LONG = 448, BRIEF = 64 }; /* 3 · 448 is the payload of a datagram of 1400 bytes */
    for (; n >= 3 * LONG; p += 3 * LONG, n -= 3 * LONG)
        crc = in_threes(crc, p, LONG, 0x68BCE87A, 0x1B03397F);
    for (; n >= 3 * BRIEF; p += 3 * BRIEF, n -= 3 * BRIEF)
        crc = in_threes(crc, p, BRIEF, 0x0D3B6092, 0x9E4ADDF8);
    for (; n >= 8; p += 8, n -= 8)
        crc = (uint32_t)_mm_crc32_u64(crc, word(p));
    if (n >= 4) {
        uint32_t four;
        memcpy(&four, p, 4);
        crc = _mm_crc32_u32(crc, four);
        p += 4;
        n -= 4;
    }
    for (; n; p++, n--)
        crc = _mm_crc32_u8(crc, *p);
    return crc;
}

static uint32_t update(uint32_t crc, const uint8_t *p, size_t n)
{
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"))
        return by_instruction(crc, p, n);
    return by_table(crc, p, n);
}
#else
static uint32_t update(uint32_t crc, const uint8_t *p, size_t n)
{
    return by_table(crc, p, n);
}
#endif

uint32_t cq_crc32c(uint32_t crc, const uint8_t *bytes, size_t count)
{
    return ~update(~crc, bytes, count);
}

/* For the tests: what processors without the instruction compute. */
CQ_EXPORT uint32_t cq_crc32c_by_table(uint32_t crc, const uint8_t *bytes, size_t count)
{
    return ~by_table(~crc, bytes, count);
}

/* Of a datagram, its own checksum field taken as 0. */
uint32_t cq_datagram_crc(const uint8_t *datagram, size_t size)
{
    static const uint8_t zero[4];
    uint32_t crc = update(update(~0u, datagram, CQ_CRC_OFFSET), zero, sizeof zero);
    return ~update(crc, datagram + CQ_HEADER_BYTES, size - CQ_HEADER_BYTES);
}
