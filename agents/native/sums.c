/* How contributions add up, one loop for each kind of element; the rules are those of
 * `agents.aggregator.arithmetic`. */
#include "cq.h"

#include <string.h>

/* Elements lie at any address: the buffer decides where a datagram begins. */
typedef int32_t i32 __attribute__((aligned(1), may_alias));
typedef uint32_t u32 __attribute__((aligned(1), may_alias));
typedef uint16_t u16 __attribute__((aligned(1), may_alias));
typedef float f32 __attribute__((aligned(1), may_alias));

enum { MAX_EXPONENT = INT16_MAX, INFINITE = 0x7F800000, NAN_F32 = 0x7FC00000, NAN_BF16 = 0x7FC0 };

/* Add modulo 2^32; returns whether a sum left int32. */
CQ_FOR_EACH_CPU int cq_add_i32(i32 *out, const i32 *a, const i32 *b, uint32_t count);
CQ_FOR_EACH_CPU int cq_add_i32(i32 *out, const i32 *a, const i32 *b, uint32_t count)
{
    int32_t left = 0; /* its sign */
    for (uint32_t i = 0; i < count; i++) {
        int32_t x = a[i], y = b[i], sum = (int32_t)((uint32_t)x + (uint32_t)y);
        /* The sum of two numbers of one sign has the other sign: it left the range. */
        left |= (x ^ sum) & (y ^ sum);
        out[i] = sum;
    }
    return left < 0;
}

/* Put what left int32 to its limit: `sums` are a + b modulo 2^32, and `b` is still there.
 *
 * Rare, and so not in the loop above. */
void cq_saturate(uint8_t *to, const uint8_t *added, uint32_t count)
{
    i32 *sums = (i32 *)to;
    const i32 *b = (const i32 *)added;
    for (uint32_t i = 0; i < count; i++) {
        int32_t sum = sums[i], y = b[i], x = (int32_t)((uint32_t)sum - (uint32_t)y);
        if (((x ^ sum) & (y ^ sum)) < 0)
            sums[i] = x < 0 ? INT32_MIN : INT32_MAX;
    }
}

/* Undo an addition that left no element at its limit. */
void cq_subtract(uint8_t *to, const uint8_t *added, uint32_t count)
{
    u32 *sums = (u32 *)to;
    const u32 *b = (const u32 *)added;
    for (uint32_t i = 0; i < count; i++)
        sums[i] -= b[i];
}

/* Divide by 2^bits, rounded to nearest, halves up; 0 from 32 bits on. */
static inline int64_t shifted(int64_t value, int bits)
{
    if (bits == 0)
        return value;
    return bits >= 32 ? 0 : (value + ((int64_t)1 << (bits - 1))) >> bits;
}

/* Add elements with exponents; returns the exponent of the sum, and flags. */
static int add_scaled(i32 *out, const i32 *a, const i32 *b, int exponent_a, int exponent_b,
                      uint32_t count, uint8_t *flags)
{
    int common = exponent_a > exponent_b ? exponent_a : exponent_b;
    int64_t least, most;
    for (;; common++) {
        least = most = 0;
        for (uint32_t i = 0; i < count; i++) {
            int64_t sum = shifted(a[i], common - exponent_a) + shifted(b[i], common - exponent_b);
            least = sum < least ? sum : least;
            most = sum > most ? sum : most;
        }
        if ((least >= INT32_MIN && most <= INT32_MAX) || common == MAX_EXPONENT)
            break;
    }
    for (uint32_t i = 0; i < count; i++) {
        int64_t sum = shifted(a[i], common - exponent_a) + shifted(b[i], common - exponent_b);
        out[i] = (i32)(sum < INT32_MIN ? INT32_MIN : sum > INT32_MAX ? INT32_MAX : sum);
    }
    if (least < INT32_MIN || most > INT32_MAX)
        *flags |= CQ_SATURATED;
    return common;
}

CQ_FOR_EACH_CPU void cq_add_f32(f32 *out, const f32 *a, const f32 *b, uint32_t count);
CQ_FOR_EACH_CPU void cq_add_f32(f32 *out, const f32 *a, const f32 *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        out[i] = a[i] + b[i];
}

CQ_FOR_EACH_CPU void cq_widen(u32 *out, const u16 *values, uint32_t count);
CQ_FOR_EACH_CPU void cq_widen(u32 *out, const u16 *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        out[i] = (uint32_t)values[i] << 16;
}

static void add_bf16(f32 *sums, const u16 *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)values[i] << 16;
        float value;
        memcpy(&value, &bits, 4);
        sums[i] += value;
    }
}

/* Copy with the one NaN; returns whether an element is not finite. */
CQ_FOR_EACH_CPU int cq_leave_f32(u32 *out, const u32 *values, uint32_t count);
CQ_FOR_EACH_CPU int cq_leave_f32(u32 *out, const u32 *values, uint32_t count)
{
    uint32_t any = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits = values[i], size = bits & 0x7FFFFFFFu;
        any |= size >= INFINITE;
        out[i] = size > INFINITE ? NAN_F32 : bits;
    }
    return any != 0;
}

/* Round to nearest, ties to even; returns whether an element is not finite then. */
CQ_FOR_EACH_CPU int cq_leave_bf16(u16 *out, const u32 *values, uint32_t count);
CQ_FOR_EACH_CPU int cq_leave_bf16(u16 *out, const u32 *values, uint32_t count)
{
    uint32_t any = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits = values[i];
        uint32_t rounded = (bits + 0x7FFFu + (bits >> 16 & 1)) >> 16;
        uint32_t packed = (bits & 0x7FFFFFFFu) > INFINITE ? NAN_BF16 : rounded;
        any |= (packed & 0x7F80u) == 0x7F80u;
        out[i] = (uint16_t)packed;
    }
    return any != 0;
}

/* Copy a contribution to where it is kept. */
void cq_keep(uint32_t dtype, uint8_t *to, const struct cq_part *part, uint32_t count)
{
    if (dtype == CQ_BF16 && part->on_wire)
        cq_widen((u32 *)to, (const u16 *)part->elements, count);
    else
        memcpy(to, part->elements, (size_t)4 * count);
}

/* Add `part` to `sum`, which is as in memory (or, but for bf16, as on the wire: the same),
 * into `to`, which may be where the sum lies; `sum` is then what lies there. */
void cq_add(uint32_t dtype, uint8_t *to, struct cq_part *sum, const struct cq_part *part,
            uint32_t count)
{
    const uint8_t *a = sum->elements, *b = part->elements;
    sum->elements = to;
    sum->bitmap |= part->bitmap;
    sum->flags |= part->flags;
    if (dtype == CQ_I32) {
        if (cq_add_i32((i32 *)to, (const i32 *)a, (const i32 *)b, count)) {
            cq_saturate(to, b, count);
            sum->flags |= CQ_SATURATED;
        }
    } else if (dtype == CQ_I32_EXPONENT) {
        sum->exponent = (int16_t)add_scaled((i32 *)to, (const i32 *)a, (const i32 *)b,
                                            sum->exponent, part->exponent, count, &sum->flags);
    } else if (dtype == CQ_BF16 && part->on_wire) {
        if (to != a)
            memmove(to, a, (size_t)4 * count);
        add_bf16((f32 *)to, (const u16 *)b, count);
    } else {
        cq_add_f32((f32 *)to, (const f32 *)a, (const f32 *)b, count);
    }
}

/* Write a sum as a datagram carries it; returns the flags that its elements ask for. */
int cq_leave(uint32_t dtype, uint8_t *to, const uint8_t *from, int on_wire, uint32_t count)
{
    if (dtype == CQ_F32)
        return cq_leave_f32((u32 *)to, (const u32 *)from, count) ? CQ_NONFINITE : 0;
    if (dtype == CQ_BF16) {
        if (!on_wire)
            return cq_leave_bf16((u16 *)to, (const u32 *)from, count) ? CQ_NONFINITE : 0;
        int any = 0;
        for (uint32_t i = 0; i < count; i++) {
            uint16_t bits = ((const u16 *)from)[i];
            any |= (bits & 0x7F80) == 0x7F80;
            ((u16 *)to)[i] = (bits & 0x7FFF) > 0x7F80 ? NAN_BF16 : bits;
        }
        return any ? CQ_NONFINITE : 0;
    }
    if (to != from)
        memcpy(to, from, (size_t)4 * count);
    return 0;
}
