/* Numbers in network order, at any address. */
#ifndef CQ_WIRE_H
#define CQ_WIRE_H

#include <stdint.h>
#include <string.h>

/* Where the fields of a datagram's header are; see `agents.wire.HEADER_DTYPE`. */
enum {
    AT_MAGIC = 0, AT_VERSION = 2, AT_TYPE = 3, AT_FLAGS = 4, AT_DTYPE = 5, AT_ELEMENTS = 6,
    AT_JOB = 8, AT_EPOCH = 12, AT_ROUND = 16, AT_CLIQUE = 20, AT_SOURCE = 22, AT_CAUSE = 23,
    AT_BLOCK = 24, AT_BITMAP = 32, AT_SEQ = 40, AT_EXPONENT = 44, AT_WEIGHT = 46, AT_TIME = 48,
    AT_CRC = 52
};

static inline uint16_t get16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, 2);
    return __builtin_bswap16(v);
}

static inline uint32_t get32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return __builtin_bswap32(v);
}

static inline uint64_t get64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return __builtin_bswap64(v);
}

static inline void put32(uint8_t *p, uint32_t v)
{
    v = __builtin_bswap32(v);
    memcpy(p, &v, 4);
}

static inline void put64(uint8_t *p, uint64_t v)
{
    v = __builtin_bswap64(v);
    memcpy(p, &v, 8);
}

#endif
