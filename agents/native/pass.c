/* Which of the passes this processor can make. */
#include "cq.h"

const struct cq_pass *cq_pass(uint32_t vector_bytes)
{
#ifdef __x86_64__
    int folds = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("vpclmulqdq");
    if (vector_bytes == 64 && folds && __builtin_cpu_supports("avx512f")
        && __builtin_cpu_supports("avx512dq"))
        return &cq_pass_wide;
    if (vector_bytes == 32 && folds && __builtin_cpu_supports("avx2"))
        return &cq_pass_narrow;
#endif
    (void)vector_bytes;
    return 0;
}
