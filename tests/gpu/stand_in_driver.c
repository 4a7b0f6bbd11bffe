// libcuda.so.1 for the test of check_kernels.py: a kernel is a text that says what becomes of it.
//
//     right, wrong    it writes n floats, the right ones or others
//     hang            it never ends
//     fault           every call after it fails
//     dies            the process ends
//     careless        it is right, and the stand-in for compute-sanitizer has something to say of it
//     anything else   the driver refuses to load it
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INVALID_IMAGE = 200, ILLEGAL_ADDRESS = 700 };
static int sticky;

int cuInit(unsigned flags) { return 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = &sticky, 0; }
int cuCtxSetCurrent(void *context) { return context != &sticky; }
int cuCtxSynchronize(void) { return sticky; }
int cuGetErrorName(int code, const char **name) {
    *name = code == INVALID_IMAGE ? "CUDA_ERROR_INVALID_IMAGE" : "CUDA_ERROR_ILLEGAL_ADDRESS";
    return 0;
}
int cuMemAlloc_v2(uint64_t *address, size_t size) { return *address = (uintptr_t)malloc(size), sticky; }
int cuMemFree_v2(uint64_t address) { return free((void *)(uintptr_t)address), sticky; }
int cuMemsetD8_v2(uint64_t to, unsigned char byte, size_t size) { return memset((void *)(uintptr_t)to, byte, size), sticky; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) { return memcpy((void *)(uintptr_t)to, from, size), sticky; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { return memcpy(to, (void *)(uintptr_t)from, size), sticky; }
int cuModuleLoadDataEx(void **module, const char *image, unsigned count, int *options, void **values) {
    const char *known[] = {"right", "wrong", "hang", "fault", "dies", "careless"};
    for (int i = 0; i < 6; ++i) {
        if (strcmp(image, known[i]) == 0) return *module = strdup(image), 0;
    }
    snprintf(values[0], (size_t)(uintptr_t)values[1], "no such kernel");
    return INVALID_IMAGE;
}
int cuModuleUnload(void *module) { return free(module), sticky; }
int cuModuleGetFunction(void **function, void *module, const char *entry) { return *function = module, sticky; }
int cuFuncSetAttribute(void *function, int attribute, int value) { return sticky; }
int cuLaunchKernel(const char *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra) {
    float *out = *(float **)arguments[0];
    const int n = *(int *)arguments[1];
    if (strcmp(kernel, "hang") == 0) {
        while (1) pause();
    }
    if (strcmp(kernel, "dies") == 0) abort();
    if (strcmp(kernel, "fault") == 0) return sticky = ILLEGAL_ADDRESS, 0;
    if (strcmp(kernel, "careless") == 0) {
        printf("========= Invalid __global__ read of size 4 bytes\n");
        fflush(stdout);
    }
    for (int i = 0; i < n; ++i) out[i] = (float)(strcmp(kernel, "wrong") == 0 ? -i : i);
    return 0;
}
