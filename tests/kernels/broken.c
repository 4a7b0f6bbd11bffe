#include <stdint.h>
#include <stdlib.h>

#define IS_syntax 1
#define IS_wrong 2
#define IS_unwritten 3
#define IS_segfault 4
#define IS_abort 5
#define IS_exits 6
#define IS_forever 7
#define IS_fine 8
#define JOIN(a, b) a##b
#define IS(how) JOIN(IS_, how)
#ifndef HOW
#define HOW fine
#endif

#if IS(HOW) == IS_syntax
this is not C
#endif

void good(const float *x, float *y, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        y[i] = 2 * x[i];
}

void bad(const float *x, float *y, int32_t n)
{
    volatile int32_t *nowhere = 0;
    switch (IS(HOW)) {
    case IS_wrong:
        good(x, y, n);
        y[n / 2] += 1;
        break;
    case IS_unwritten:
        good(x, y, n - 1);
        break;
    case IS_segfault:
        *nowhere = 1;
        break;
    case IS_abort:
        abort();
    case IS_exits:
        exit(0);
    case IS_forever:
        for (;;)
            *(volatile float *)y = 0;
    default:
        good(x, y, n);
    }
}
