// Kernels for the stand-in: see README.md.
#include <stdint.h>
#include <unistd.h>

// y = a x + b for n elements
void bluefin_standin_axpy(void **arguments, const uint32_t *geometry) {
    const float *x = *(const float **)arguments[0];
    float *y = *(float **)arguments[1], a = *(float *)arguments[2];
    int64_t n = *(int64_t *)arguments[3], threads = (int64_t)geometry[0] * geometry[3];
    for (int64_t i = 0; i < n && i < threads; ++i) y[i] = a * x[i] + 1;
}
const uint32_t bluefin_standin_axpy_sizes[] = {8, 8, 4, 8, 0};

void bluefin_standin_sleep(void **arguments, const uint32_t *geometry) { usleep(*(int32_t *)arguments[0] * 1000); }
const uint32_t bluefin_standin_sleep_sizes[] = {4, 0};

// Writes behind an allocation.
void bluefin_standin_overrun(void **arguments, const uint32_t *geometry) {
    volatile float *y = *(float **)arguments[0];
    for (int i = 0; i < 1 << 20; ++i) y[i] = 1;
}
const uint32_t bluefin_standin_overrun_sizes[] = {8, 0};
