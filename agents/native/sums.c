/* Adds two blocks, one loop for each kind of element; compiled for several processors. */
#include "cq.h"

/* Elements lie at any address: the buffer decides where a datagram begins. */
typedef int32_t i32 __attribute__((aligned(1), may_alias));
typedef uint32_t u32 __attribute__((aligned(1), may_alias));
typedef float f32 __attribute__((aligned(1), may_alias));

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
static void saturate(i32 *sums, const i32 *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        int32_t sum = sums[i], y = b[i], x = (int32_t)((uint32_t)sum - (uint32_t)y);
        if (((x ^ sum) & (y ^ sum)) < 0)
            sums[i] = x < 0 ? INT32_MIN : INT32_MAX;
    }
}

CQ_FOR_EACH_CPU void cq_add_f32(f32 *out, const f32 *a, const f32 *b, uint32_t count);
CQ_FOR_EACH_CPU void cq_add_f32(f32 *out, const f32 *a, const f32 *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        out[i] = a[i] + b[i];
}

/* Whether a float is an infinity or not a number. */
CQ_FOR_EACH_CPU int cq_any_nonfinite(const u32 *values, uint32_t count);
CQ_FOR_EACH_CPU int cq_any_nonfinite(const u32 *values, uint32_t count)
{
    uint32_t any = 0;
    for (uint32_t i = 0; i < count; i++)
        any |= (values[i] & 0x7F800000u) == 0x7F800000u;
    return any != 0;
}

int cq_nonfinite(const uint8_t *elements, uint32_t count)
{
    return cq_any_nonfinite((const u32 *)elements, count);
}

/* Add `come` to `held` into `out`, which may be where `held` lies.
 *
 * Returns the flags of the sum; `exponent` is set to its exponent. */
int cq_add(uint32_t dtype, uint8_t *out, const struct cq_part *held, const struct cq_part *come,
           uint32_t count, int *exponent)
{
    int flags = held->flags | come->flags;
    *exponent = held->exponent;
    if (dtype == CQ_F32) {
        cq_add_f32((f32 *)out, (const f32 *)held->elements, (const f32 *)come->elements, count);
        return flags | (cq_nonfinite(out, count) ? CQ_NONFINITE : 0);
    }
    int saturated = cq_add_i32((i32 *)out, (const i32 *)held->elements,
                               (const i32 *)come->elements, count);
    if (saturated)
        saturate((i32 *)out, (const i32 *)come->elements, count);
    return flags | (saturated ? CQ_SATURATED : 0);
}
