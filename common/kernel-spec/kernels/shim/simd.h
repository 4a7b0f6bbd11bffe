// CUDA's operations on the two halves or four bytes of a word at once, part by part.
#pragma once

// Part `i` of a word, and a word with a result in that part.
template <int bits> BLUEFIN_BOTH int bluefin_signed_part(unsigned x, int i) { return (int)(x << (32 - bits - i * bits)) >> (32 - bits); }
template <int bits> BLUEFIN_BOTH int bluefin_plain_part(unsigned x, int i) { return (int)(x << (32 - bits - i * bits) >> (32 - bits)); }
BLUEFIN_BOTH int bluefin_clamp(int x, int least, int most) { return x < least ? least : x > most ? most : x; }

// `code` of the parts a and b, which `part` takes: 16 bits each, then 8; `least` and `most` are the ends of what such a part holds.
#define BLUEFIN_PARTS_OF(name, count, parameters, x, y, part, least_, most_, code)                         \
    BLUEFIN_BOTH unsigned __v##name##count parameters {                                                    \
        constexpr int bits = 32 / count, least = least_, most = most_;                                     \
        unsigned result = 0;                                                                               \
        for (int i = 0; i < count; ++i) {                                                                  \
            const int a = part<bits>(x, i), b = part<bits>(y, i);                                          \
            (void)(a + b + least + most);                                                                  \
            result |= (unsigned)(code) << (32 - bits) >> (32 - bits - i * bits);                           \
        }                                                                                                  \
        return result;                                                                                     \
    }
#define BLUEFIN_OF_SIGNED(name, parameters, y, code)                                                                        \
    BLUEFIN_PARTS_OF(name, 2, parameters, x, y, bluefin_signed_part, -(1 << (bits - 1)), (1 << (bits - 1)) - 1, code)       \
    BLUEFIN_PARTS_OF(name, 4, parameters, x, y, bluefin_signed_part, -(1 << (bits - 1)), (1 << (bits - 1)) - 1, code)
#define BLUEFIN_OF_UNSIGNED(name, code)                                                                                     \
    BLUEFIN_PARTS_OF(name, 2, (unsigned x, unsigned y), x, y, bluefin_plain_part, 0, (1 << bits) - 1, code)                 \
    BLUEFIN_PARTS_OF(name, 4, (unsigned x, unsigned y), x, y, bluefin_plain_part, 0, (1 << bits) - 1, code)
#define BLUEFIN_SIMD1(name, code) BLUEFIN_OF_SIGNED(name, (unsigned x), x, code)
#define BLUEFIN_SIMD2(name, code) BLUEFIN_OF_SIGNED(name, (unsigned x, unsigned y), y, code)

BLUEFIN_SIMD1(abs, a < 0 ? -a : a)
BLUEFIN_SIMD1(absss, a == least ? most : a < 0 ? -a : a)
BLUEFIN_SIMD1(neg, -a)
BLUEFIN_SIMD1(negss, a == least ? most : -a)
BLUEFIN_SIMD2(add, a + b)
BLUEFIN_SIMD2(addss, bluefin_clamp(a + b, least, most))
BLUEFIN_OF_UNSIGNED(addus, bluefin_clamp(a + b, least, most))
BLUEFIN_SIMD2(sub, a - b)
BLUEFIN_SIMD2(subss, bluefin_clamp(a - b, least, most))
BLUEFIN_OF_UNSIGNED(subus, bluefin_clamp(a - b, least, most))
BLUEFIN_SIMD2(absdiffs, a < b ? b - a : a - b)
BLUEFIN_OF_UNSIGNED(absdiffu, a < b ? b - a : a - b)
// Halves are rounded away from zero.
BLUEFIN_SIMD2(avgs, (a + b + (a + b >= 0)) >> 1)
BLUEFIN_OF_UNSIGNED(avgu, (a + b + 1) >> 1)
BLUEFIN_OF_UNSIGNED(haddu, (a + b) >> 1)
BLUEFIN_SIMD2(mins, a < b ? a : b)
BLUEFIN_SIMD2(maxs, a < b ? b : a)
BLUEFIN_OF_UNSIGNED(minu, a < b ? a : b)
BLUEFIN_OF_UNSIGNED(maxu, a < b ? b : a)
// All bits of a part, or its last one, where a comparison holds.
#define BLUEFIN_COMPARES(name, op)                       \
    BLUEFIN_SIMD2(cmp##name##s, a op b ? -1 : 0)         \
    BLUEFIN_OF_UNSIGNED(cmp##name##u, a op b ? -1 : 0)   \
    BLUEFIN_SIMD2(set##name##s, a op b ? 1 : 0)          \
    BLUEFIN_OF_UNSIGNED(set##name##u, a op b ? 1 : 0)
BLUEFIN_COMPARES(ge, >=)
BLUEFIN_COMPARES(gt, >)
BLUEFIN_COMPARES(le, <=)
BLUEFIN_COMPARES(lt, <)
BLUEFIN_SIMD2(cmpeq, a == b ? -1 : 0)
BLUEFIN_SIMD2(cmpne, a != b ? -1 : 0)
BLUEFIN_SIMD2(seteq, a == b ? 1 : 0)
BLUEFIN_SIMD2(setne, a != b ? 1 : 0)

// The sum of the parts' differences.
#define BLUEFIN_DIFFERENCES(name, count, part)                                     \
    BLUEFIN_BOTH unsigned __vsad##name##count(unsigned x, unsigned y) {            \
        unsigned sum = 0;                                                          \
        for (int i = 0; i < count; ++i) {                                          \
            const int by = part<32 / count>(x, i) - part<32 / count>(y, i);        \
            sum += (unsigned)(by < 0 ? -by : by);                                  \
        }                                                                          \
        return sum;                                                                \
    }
BLUEFIN_DIFFERENCES(s, 2, bluefin_signed_part)
BLUEFIN_DIFFERENCES(s, 4, bluefin_signed_part)
BLUEFIN_DIFFERENCES(u, 2, bluefin_plain_part)
BLUEFIN_DIFFERENCES(u, 4, bluefin_plain_part)

// The largest or least of a sum and a third, or of three; `_relu` is at least 0.
#define BLUEFIN_CHOICES(letter, T)                                                                           \
    BLUEFIN_BOTH T __viaddmax_##letter##32(T a, T b, T c) {                                                  \
        const T sum = (T)((unsigned)a + (unsigned)b);                                                        \
        return sum < c ? c : sum;                                                                            \
    }                                                                                                        \
    BLUEFIN_BOTH T __viaddmin_##letter##32(T a, T b, T c) {                                                  \
        const T sum = (T)((unsigned)a + (unsigned)b);                                                        \
        return c < sum ? c : sum;                                                                            \
    }                                                                                                        \
    BLUEFIN_BOTH T __vimax3_##letter##32(T a, T b, T c) { return __viaddmax_##letter##32(a, 0, __viaddmax_##letter##32(b, 0, c)); } \
    BLUEFIN_BOTH T __vimin3_##letter##32(T a, T b, T c) { return __viaddmin_##letter##32(a, 0, __viaddmin_##letter##32(b, 0, c)); } \
    BLUEFIN_BOTH unsigned __viaddmax_##letter##16x2(unsigned a, unsigned b, unsigned c) { return __vmax##letter##2(__vadd2(a, b), c); } \
    BLUEFIN_BOTH unsigned __viaddmin_##letter##16x2(unsigned a, unsigned b, unsigned c) { return __vmin##letter##2(__vadd2(a, b), c); } \
    BLUEFIN_BOTH unsigned __vimax3_##letter##16x2(unsigned a, unsigned b, unsigned c) { return __vmax##letter##2(a, __vmax##letter##2(b, c)); } \
    BLUEFIN_BOTH unsigned __vimin3_##letter##16x2(unsigned a, unsigned b, unsigned c) { return __vmin##letter##2(a, __vmin##letter##2(b, c)); }
BLUEFIN_CHOICES(s, int)
BLUEFIN_CHOICES(u, unsigned)
#define BLUEFIN_RELU(name)                                                                                                              \
    BLUEFIN_BOTH int __vi##name##_s32_relu(int a, int b, int c) { return __viaddmax_s32(__vi##name##_s32(a, b, c), 0, 0); }             \
    BLUEFIN_BOTH unsigned __vi##name##_s16x2_relu(unsigned a, unsigned b, unsigned c) { return __vmaxs2(__vi##name##_s16x2(a, b, c), 0); }
BLUEFIN_RELU(addmax)
BLUEFIN_RELU(addmin)
BLUEFIN_RELU(max3)
BLUEFIN_RELU(min3)
BLUEFIN_BOTH int __vimax_s32_relu(int a, int b) { return __vimax3_s32(a, b, 0); }
BLUEFIN_BOTH int __vimin_s32_relu(int a, int b) { return __vimin3_s32_relu(a, b, b); }
BLUEFIN_BOTH unsigned __vimax_s16x2_relu(unsigned a, unsigned b) { return __vimax3_s16x2(a, b, 0); }
BLUEFIN_BOTH unsigned __vimin_s16x2_relu(unsigned a, unsigned b) { return __vimin3_s16x2_relu(a, b, b); }
// The larger or smaller of two, and whether that is the first: of halves the upper one is told in front of the lower one.
#define BLUEFIN_TELLING(name, letter, T, op)                                                                        \
    BLUEFIN_BOTH T __vib##name##_##letter##32(T a, T b, bool* first) { return (*first = a op b) ? a : b; }          \
    BLUEFIN_BOTH unsigned __vib##name##_##letter##16x2(unsigned a, unsigned b, bool* high, bool* low) {             \
        const unsigned chosen = __v##name##letter##2(a, b), same = __vcmpeq2(chosen, a);                            \
        *high = same >> 31;                                                                                         \
        *low = same & 1;                                                                                            \
        return chosen;                                                                                              \
    }
BLUEFIN_TELLING(max, s, int, >=)
BLUEFIN_TELLING(max, u, unsigned, >=)
BLUEFIN_TELLING(min, s, int, <=)
BLUEFIN_TELLING(min, u, unsigned, <=)
