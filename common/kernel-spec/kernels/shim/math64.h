// Mathematical functions on FP64, of additions, products, quotients and square roots alone: compilers make no calls of a library
// on a GPU. Errors are in units of the last place (ULP), as measured against correctly rounded results; subnormals count.
#pragma once

#define BLUEFIN_INFINITY __builtin_inf()
#define BLUEFIN_NAN __builtin_nan("")
constexpr double bluefin_pi = 0x1.921fb54442d18p+1;

// value * 2^by, in steps that leave the last one to round.
BLUEFIN_BOTH double bluefin_scale(double value, int by) {
    by = by < -2200 ? -2200 : by > 2200 ? 2200 : by;
    const int part = by / 4;
    const double factor = bluefin_bits<double>((unsigned long long)(1023 + part) << 52);
    const double rest = bluefin_bits<double>((unsigned long long)(1023 + by - 3 * part) << 52);
    // The first factors are exact but where all underflows or overflows.
    return by >= -1022 && by <= 1023 ? value * bluefin_bits<double>((unsigned long long)(1023 + by) << 52)
                                     : value * rest * factor * factor * factor;
}

// A number as mantissa, from sqrt(1/2) to sqrt(2), and exponent. For what is finite and positive.
struct bluefin_parts64 {
    double mantissa;
    int exponent;
};
BLUEFIN_BOTH bluefin_parts64 bluefin_parts(double x) {
    int exponent = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        exponent = -54;
    }
    unsigned long long bits = bluefin_bits<unsigned long long>(x);
    // Of what is above sqrt(2) the half.
    bits += 0x3ff0000000000000ull - 0x3fe6a09e667f3bcdull;
    exponent += (int)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull;
    return {bluefin_bits<double>(bits), exponent};
}

// e^(x + more), where `more` is small beside x. 1 ULP.
BLUEFIN_BOTH double bluefin_exp(double x, double more = 0) {
    if (!(x < 710)) return x != x ? x : BLUEFIN_INFINITY;
    if (x < -746) return 0;
    const double n = __builtin_rint(x * 0x1.71547652b82fep+0);
    double r = __builtin_fma(-n, 0x1.62e42fee00000p-1, x);
    r = __builtin_fma(-n, 0x1.a39ef35793c76p-33, r) + more;
    double p = 1.0 / 6227020800;
    p = __builtin_fma(p, r, 1.0 / 479001600);
    p = __builtin_fma(p, r, 1.0 / 39916800);
    p = __builtin_fma(p, r, 1.0 / 3628800);
    p = __builtin_fma(p, r, 1.0 / 362880);
    p = __builtin_fma(p, r, 1.0 / 40320);
    p = __builtin_fma(p, r, 1.0 / 5040);
    p = __builtin_fma(p, r, 1.0 / 720);
    p = __builtin_fma(p, r, 1.0 / 120);
    p = __builtin_fma(p, r, 1.0 / 24);
    p = __builtin_fma(p, r, 1.0 / 6);
    p = __builtin_fma(p, r, 0.5);
    return bluefin_scale(__builtin_fma(p, r * r, r) + 1, (int)n);
}

// e^x - 1. 4 ULP.
BLUEFIN_BOTH double bluefin_expm1(double x) {
    if (__builtin_fabs(x) > 0.4) return bluefin_exp(x) - 1;
    if (x == 0) return x;
    double p = 0;
#pragma unroll
    for (int n = 16; n > 1; --n) p = (p + 1) * (x * (1.0 / n));
    return __builtin_fma(p, x, x);
}

// 2 (s^2/3 + s^4/5 + ...): what log(1 + f) has beyond 2 s, as a part of s, where s = f / (2 + f).
BLUEFIN_BOTH double bluefin_log_rest(double s) {
    const double z = s * s;
    double p = 0;
#pragma unroll
    for (int n = 23; n > 1; n -= 2) p = __builtin_fma(p, z, 2.0 / n);
    return p * z;
}

// The natural logarithm as a sum of two numbers, for pow.
struct bluefin_pair {
    double high, low;
};
BLUEFIN_BOTH bluefin_pair bluefin_log_pair(double x) {
    const auto [mantissa, exponent] = bluefin_parts(x);
    const double f = mantissa - 1, below = 2 + f, s = f / below;
    const double lost = f - (below - 2), s_low = (__builtin_fma(-s, below, f) - s * lost) / below;
    const double k = exponent, high = k * 0x1.62e42fee00000p-1, low = k * 0x1.a39ef35793c76p-33;
    const double rest = __builtin_fma(s, bluefin_log_rest(s), 2 * s_low + low);
    const double sum = high + 2 * s, sum_low = __builtin_fabs(high) > __builtin_fabs(2 * s) ? 2 * s - (sum - high)
                                                                                             : high - (sum - 2 * s);
    const double total = sum + (sum_low + rest);
    return {total, (sum - total) + (sum_low + rest)};
}

// 2 ULP.
BLUEFIN_BOTH double bluefin_log(double x) {
    if (!(x > 0)) return x == 0 ? -BLUEFIN_INFINITY : BLUEFIN_NAN;
    if (x == BLUEFIN_INFINITY) return x;
    return bluefin_log_pair(x).high;
}

// log(1 + x). 3 ULP.
BLUEFIN_BOTH double bluefin_log1p(double x) {
    if (__builtin_fabs(x) < 0x1p-54) return x;
    const double one = 1 + x;
    if (!(one > 0) || one == BLUEFIN_INFINITY) return bluefin_log(one);
    const double lost = one >= 2 ? 1 - (one - x) : x - (one - 1);
    if (one > 0.8 && one < 1.4) {
        const double s = x / (2 + x);
        return x - s * (x - bluefin_log_rest(s));
    }
    return bluefin_log(one) + lost / one;
}

// x^y. 2 ULP where the result is moderate, 24 ULP near the ends of the range.
BLUEFIN_BOTH double bluefin_pow(double x, double y) {
    if (y == 0 || x == 1) return 1;
    if (x != x || y != y) return BLUEFIN_NAN;
    const double size = __builtin_fabs(x);
    const bool whole = __builtin_trunc(y) == y, odd = whole && __builtin_trunc(y * 0.5) * 2 != y && __builtin_fabs(y) < 0x1p53;
    if (__builtin_fabs(y) == BLUEFIN_INFINITY) {
        if (size == 1) return 1;
        return (size > 1) == (y > 0) ? BLUEFIN_INFINITY : 0;
    }
    if (size == 0 || size == BLUEFIN_INFINITY) {
        const double result = (size == 0) == (y > 0) ? 0 : BLUEFIN_INFINITY;
        return odd && __builtin_copysign(1.0, x) < 0 ? -result : result;
    }
    if (x < 0 && !whole) return BLUEFIN_NAN;
    const bluefin_pair log = bluefin_log_pair(size);
    const double high = y * log.high;
    double result;
    if (__builtin_fabs(high) > 800) {
        result = high > 0 ? BLUEFIN_INFINITY : 0;
    } else {
        result = bluefin_exp(high, __builtin_fma(y, log.high, -high) + y * log.low);
    }
    return x < 0 && odd ? -result : result;
}

// An angle as so many quarters of a turn, and what is left: from -pi/4 to pi/4, as a sum of two.
struct bluefin_angle {
    double high, low;
    int quarters;
};
// The bits of 2/pi behind the point. The number of quarters of x, modulo 4, needs those alone whose product with x is not a
// multiple of 4 and is not beyond the last place.
BLUEFIN_BOTH bluefin_angle bluefin_reduce_large(double x) {
    constexpr unsigned long long digits[21] = {
        0,                  0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
        0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41,
        0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
        0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab,
        0xf0cfbc209af4361d};
    const unsigned long long bits = bluefin_bits<unsigned long long>(__builtin_fabs(x));
    const int exponent = (int)(bits >> 52) - 1075, first = exponent - 2 + 64, word = first / 64, shift = first % 64;
    const unsigned long long mantissa = (bits & 0xfffffffffffffull) | 1ull << 52;
    unsigned long long window[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        window[i] = digits[word + i] << shift;
        if (shift) window[i] |= digits[word + i + 1] >> (64 - shift);
    }
    // The upper two thirds of mantissa * window, modulo 2^192: two bits of quarters, then their fraction.
    unsigned __int128 carry = (unsigned __int128)mantissa * window[2];
    carry = (carry >> 64) + (unsigned __int128)mantissa * window[1];
    unsigned long long low = (unsigned long long)carry;
    unsigned long long high = (unsigned long long)(carry >> 64) + mantissa * window[0];
    int quarters = (int)(high >> 62);
    const long long fraction = (long long)(high << 2 | low >> 62);
    low <<= 2;
    if (fraction < 0) quarters += 1;
    const double upper = (double)(fraction >> 11) * 0x1p-53;
    const double lower = (double)((unsigned long long)fraction << 53 | low >> 11) * 0x1p-117;
    const double part = upper + lower, part_low = lower - (part - upper);
    const double angle = part * 0x1.921fb54442d18p+0;
    const double angle_low = __builtin_fma(part, 0x1.921fb54442d18p+0, -angle) + part * 0x1.1a62633145c07p-54 +
                             part_low * 0x1.921fb54442d18p+0;
    return x < 0 ? bluefin_angle{-angle, -angle_low, -quarters & 3} : bluefin_angle{angle, angle_low, quarters & 3};
}
BLUEFIN_BOTH bluefin_angle bluefin_reduce(double x) {
    if (__builtin_fabs(x) > 0x1p28) return bluefin_reduce_large(x);
    const double n = __builtin_rint(x * 0x1.45f306dc9c883p-1);
    const double exact = __builtin_fma(-n, 0x1.921fb54442d18p+0, x);
    const double product = n * 0x1.1a62633145c07p-54, product_low = __builtin_fma(n, 0x1.1a62633145c07p-54, -product);
    const double high = exact - product, lost = (exact - high) - product;
    return {high, lost - product_low + n * 0x1.f1976b7ed8fbcp-110, (int)n & 3};
}

// Of high + low from -pi/4 to pi/4.
BLUEFIN_BOTH double bluefin_sine_part(double high, double low) {
    const double z = high * high;
    double p = 0;
#pragma unroll
    for (int n = 19; n > 3; n -= 2) p = (p + 1) * (z * (-1.0 / (n * (n - 1))));
    // The terms from x^3 on, then the rest of the angle, times the cosine.
    const double rest = (p + 1) * (z * (-1.0 / 6)) * high;
    return high + (rest + low * (1 - 0.5 * z));
}
BLUEFIN_BOTH double bluefin_cosine_part(double high, double low) {
    const double z = high * high, half = 0.5 * z, first = 1 - half;
    double p = 0;
#pragma unroll
    for (int n = 20; n > 4; n -= 2) p = (p + 1) * (z * (-1.0 / (n * (n - 1))));
    return first + (((1 - first) - half) + ((p + 1) * (z * z * (1.0 / 24)) - high * low));
}
// Sine and cosine. 1 ULP for every angle.
BLUEFIN_BOTH void bluefin_sincos(double x, double* sine, double* cosine) {
    if (!(__builtin_fabs(x) < BLUEFIN_INFINITY)) {
        *sine = *cosine = BLUEFIN_NAN;
        return;
    }
    const bluefin_angle angle = bluefin_reduce(x);
    const double s = bluefin_sine_part(angle.high, angle.low), c = bluefin_cosine_part(angle.high, angle.low);
    const double one = angle.quarters & 1 ? c : s, other = angle.quarters & 1 ? s : c;
    *sine = x == 0 ? x : angle.quarters & 2 ? -one : one;
    *cosine = angle.quarters == 1 || angle.quarters == 2 ? -other : other;
}
BLUEFIN_BOTH double bluefin_sin(double x) {
    double sine, cosine;
    bluefin_sincos(x, &sine, &cosine);
    return sine;
}
BLUEFIN_BOTH double bluefin_cos(double x) {
    double sine, cosine;
    bluefin_sincos(x, &sine, &cosine);
    return cosine;
}
// 3 ULP.
BLUEFIN_BOTH double bluefin_tan(double x) {
    double sine, cosine;
    bluefin_sincos(x, &sine, &cosine);
    return sine / cosine;
}

// The arc tangent of y / x, from 0 to pi/2, for numbers that are not negative. 2 ULP.
BLUEFIN_BOTH double bluefin_atan_ratio(double y, double x) {
    const bool swapped = y > x;
    const double above = swapped ? x : y, below = swapped ? y : x;
    if (below == 0) return 0;
    double t = above == below ? 1 : above / below, base = 0, base_low = 0;
    if (t > 0.2679491924311227) {
        // atan(t) = pi/6 + atan((sqrt(3) t - 1) / (sqrt(3) + t)).
        constexpr double root = 0x1.bb67ae8584caap+0, root_low = 0x1.cec95d0b5c1e3p-54;
        t = (__builtin_fma(root, t, -1.0) + root_low * t) / (root + t);
        base = 0x1.0c152382d7366p-1;
        base_low = -0x1.ee6913347c2a6p-55;
    }
    const double z = t * t;
    double p = 0;
#pragma unroll
    for (int n = 29; n > 1; n -= 2) p = __builtin_fma(p, -z, 1.0 / n);
    const double angle = base + (base_low + __builtin_fma(-p * z, t, t));
    return swapped ? 0x1.921fb54442d18p+0 - (angle - 0x1.1a62633145c07p-54) : angle;
}
BLUEFIN_BOTH double bluefin_atan(double x) {
    if (x != x) return x;
    return __builtin_copysign(bluefin_atan_ratio(__builtin_fabs(x), 1), x);
}
BLUEFIN_BOTH double bluefin_atan2(double y, double x) {
    if (x != x || y != y) return BLUEFIN_NAN;
    const double angle = bluefin_atan_ratio(__builtin_fabs(y), __builtin_fabs(x));
    const double turned = __builtin_copysign(1.0, x) < 0 ? bluefin_pi - (angle - 0x1.1a62633145c07p-53) : angle;
    return __builtin_copysign(turned, y);
}
// 3 ULP.
BLUEFIN_BOTH double bluefin_asin(double x) {
    if (!(__builtin_fabs(x) <= 1)) return BLUEFIN_NAN;
    const double other = __builtin_sqrt((1 - x) * (1 + x));
    return __builtin_copysign(bluefin_atan_ratio(__builtin_fabs(x), other), x);
}
BLUEFIN_BOTH double bluefin_acos(double x) {
    if (!(__builtin_fabs(x) <= 1)) return BLUEFIN_NAN;
    return bluefin_atan2(__builtin_sqrt((1 - x) * (1 + x)), x);
}

// 4 ULP, as those below.
BLUEFIN_BOTH double bluefin_sinh(double x) {
    const double size = __builtin_fabs(x), e = bluefin_expm1(size > 709 ? size * 0.5 : size);
    const double large = 0.5 * (e + 1) * (e + 1), result = 0.5 * (e + e / (e + 1));
    return __builtin_copysign(size > 709 ? large : result, x);
}
BLUEFIN_BOTH double bluefin_cosh(double x) {
    const double size = __builtin_fabs(x), e = bluefin_exp(size > 709 ? size * 0.5 : size);
    return size > 709 ? 0.5 * e * e : 0.5 * e + 0.5 / e;
}
BLUEFIN_BOTH double bluefin_tanh(double x) {
    if (__builtin_fabs(x) > 20) return __builtin_copysign(1.0, x);
    const double e = bluefin_expm1(2 * __builtin_fabs(x));
    return __builtin_copysign(e / (e + 2), x);
}
BLUEFIN_BOTH double bluefin_asinh(double x) {
    const double size = __builtin_fabs(x);
    const double result = size > 0x1p28 ? bluefin_log(size) + 0x1.62e42fefa39efp-1
                                        : bluefin_log1p(size + size * size / (1 + __builtin_sqrt(1 + size * size)));
    return __builtin_copysign(result, x);
}
BLUEFIN_BOTH double bluefin_acosh(double x) {
    if (!(x >= 1)) return BLUEFIN_NAN;
    const double t = x - 1;
    return x > 0x1p28 ? bluefin_log(x) + 0x1.62e42fefa39efp-1 : bluefin_log1p(t + __builtin_sqrt(t * (2 + t)));
}
BLUEFIN_BOTH double bluefin_atanh(double x) {
    const double size = __builtin_fabs(x);
    return __builtin_copysign(0.5 * bluefin_log1p(2 * size / (1 - size)), x);
}
