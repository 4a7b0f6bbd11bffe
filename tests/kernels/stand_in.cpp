// Kernels for the stand-in for HIP: see tests/hip-stand-in/README.md.
#include <stdint.h>

extern "C" const char bluefin_standin_arch[] = STANDIN_ARCH;

#ifndef STEP
#define KERNEL(suffix) bluefin_standin_plain##suffix
#define STEP 1
#else
#define KERNEL(suffix) bluefin_standin_strided##suffix
#endif

// y = 2 x + 1 for n elements, STEP passes over them
extern "C" void KERNEL()(void **arguments, const uint32_t *geometry) {
    const float *x = *(const float **)arguments[0];
    float *y = *(float **)arguments[1];
    const int n = *(int *)arguments[2];
    for (int first = 0; first < STEP; ++first) {
        for (int i = first; i < n; i += STEP) y[i] = 2 * x[i] + 1;
    }
}
extern "C" const uint32_t KERNEL(_sizes)[] = {8, 8, 4, 0};
