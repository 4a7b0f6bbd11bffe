// y = 2 x, and every way to fail at it.
#define KERNEL extern "C" __attribute__((global))

#if defined(__AMDGCN__)
__attribute__((device)) static inline int index() {
    return __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();
}
#else
__attribute__((device)) static inline int index() {
    int block, thread;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return block * 256 + thread;
}
#endif

KERNEL void twice(const float *x, float *y, int n) {
    int i = index();
    if (i >= n) {
        return;
    }
    float value = 2.0f * x[i];
#if FAULT == 1
    value += i == n / 2 ? 1.0f : 0.0f;
#elif FAULT == 2
    value = i == n / 2 ? __builtin_nanf("") : value;
#elif FAULT == 3
    if (i == n / 2) {
        return;
    }
#elif FAULT == 4
    *(volatile float *)(unsigned long long)(16 + 4 * (i & 1)) = value;
#elif FAULT == 5
    while (*(volatile const float *)&x[i] == x[i]) {
    }
#endif
    y[i] = value;
}
