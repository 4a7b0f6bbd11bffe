// Roots, error functions, the gamma function and remainders on FP64.
#pragma once

// 1 ULP.
BLUEFIN_BOTH double bluefin_cbrt(double x) {
    double size = __builtin_fabs(x), scale = 1;
    if (!(size > 0 && size < BLUEFIN_INFINITY)) return x;
    if (size > 0x1p600 || size < 0x1p-600) {
        scale = size > 1 ? 0x1p200 : 0x1p-200;
        size *= size > 1 ? 0x1p-600 : 0x1p600;
    }
    // One step of Halley's method triples the right digits of an estimate.
    const double r = bluefin_exp(bluefin_log(size) / 3), cube = r * r * r;
    return __builtin_copysign(scale * (r + r * (size - cube) / (2 * cube + size)), x);
}
// 2 ULP.
BLUEFIN_BOTH double bluefin_hypot(double x, double y) {
    x = __builtin_fabs(x);
    y = __builtin_fabs(y);
    if (x == BLUEFIN_INFINITY || y == BLUEFIN_INFINITY) return BLUEFIN_INFINITY;
    const double large = x > y ? x : y, small = x > y ? y : x;
    if (!(large > 0)) return x + y;
    const double scale = large > 0x1p500 ? 0x1p-600 : large < 0x1p-400 ? 0x1p600 : 1, a = large * scale, b = small * scale;
    return __builtin_sqrt(__builtin_fma(a, a, b * b)) / scale;
}
BLUEFIN_BOTH double bluefin_logb(double x) {
    const double size = __builtin_fabs(x);
    if (size == 0) return -BLUEFIN_INFINITY;
    if (!(size < BLUEFIN_INFINITY)) return size;
    const double scaled = size < 0x1p-1022 ? size * 0x1p54 : size;
    return (int)(bluefin_bits<unsigned long long>(scaled) >> 52) - 1023 - (size < 0x1p-1022 ? 54 : 0);
}
// What division towards zero leaves. Exact.
BLUEFIN_BOTH double bluefin_fmod(double x, double y) {
    double rest = __builtin_fabs(x);
    const double by = __builtin_fabs(y);
    if (!(rest < BLUEFIN_INFINITY) || !(by > 0)) return BLUEFIN_NAN;
    while (rest >= by) {
        double step = bluefin_scale(by, (int)(bluefin_logb(rest) - bluefin_logb(by)));
        if (step > rest) step *= 0.5;
        rest -= step;
    }
    return __builtin_copysign(rest, x);
}
// What division towards the nearest whole number leaves. Exact.
BLUEFIN_BOTH double bluefin_remainder(double x, double y) {
    const double by = __builtin_fabs(y);
    if (!(__builtin_fabs(x) < BLUEFIN_INFINITY) || by != by) return BLUEFIN_NAN;
    if (by == BLUEFIN_INFINITY) return x;
    double rest = by < 0x1p1022 ? bluefin_fmod(__builtin_fabs(x), 2 * by) : __builtin_fabs(x);
    const bool tiny = by < 0x1p-1021;
    if (tiny ? rest + rest > by : rest > 0.5 * by) {
        rest -= by;
        if (tiny ? rest + rest >= by : rest >= 0.5 * by) rest -= by;
    }
    return __builtin_copysign(1.0, x) < 0 ? -rest : rest;
}

// e^(x^2) erfc(x), for x from 1 to 28, of which 4 / (x + 3) is the variable.
BLUEFIN_BOTH double bluefin_scaled_erfc(double x) {
    constexpr double factors[21] = {
        -6.8985453001292897769e-6, 0.00011423310248089092812, -0.00079639572302942936917, 0.0031663788526931177287,
        -0.0080827366405678127236, 0.014131689917389517383,   -0.017907101082852219917,   0.017558830835650682977,
        -0.013598907384274205315,  0.0077748799273128126939,  -0.0044304295662271725596,  0.0018824539004698301754,
        0.0021241360945163224141,  0.0077329961720177196835,  0.016400116887367135209,    0.030169422199678493601,
        0.049586495794371531471,   0.074931471056163519514,   0.10578554437842448151,     0.14104739598113865086,
        -1.6167322396066786549e-12};
    const double t = 4 / (x + 3);
    double p = factors[0];
#pragma unroll
    for (int i = 1; i < 21; ++i) p = __builtin_fma(p, t, factors[i]);
    return p;
}
BLUEFIN_BOTH double bluefin_upper_erfc(double x) {
    if (x > 27.5) return 0;
    const double square = x * x;
    return bluefin_exp(-square, -__builtin_fma(x, x, -square)) * bluefin_scaled_erfc(x);
}
// Of x from -1 to 1.
BLUEFIN_BOTH double bluefin_inner_erf(double x) {
    const double z = x * x;
    double p = 0, factor = 1;
    // The sum of (-z)^n / (n! (2n + 1)), from its small terms on.
#pragma unroll
    for (int n = 19; n > 0; --n) {
        factor = 1;
#pragma unroll
        for (int k = 2; k <= n; ++k) factor *= k;
        p = __builtin_fma(p, -z, 1 / (factor * (2 * n + 1)));
    }
    p = __builtin_fma(p, -z, 1.0);
    return x * p * 0x1.20dd750429b6dp+0;
}
// 2 ULP.
BLUEFIN_BOTH double bluefin_erf(double x) {
    if (!(__builtin_fabs(x) > 1)) return bluefin_inner_erf(x);
    return __builtin_copysign(1 - bluefin_upper_erfc(__builtin_fabs(x)), x);
}
// 8 ULP.
BLUEFIN_BOTH double bluefin_erfc(double x) {
    // At 1 the difference has lost three bits.
    if (!(__builtin_fabs(x) > 1)) return 1 - bluefin_inner_erf(x);
    return x > 0 ? bluefin_upper_erfc(x) : 2 - bluefin_upper_erfc(-x);
}

// log(gamma(x)) by Stirling's series, for x from 10 on.
BLUEFIN_BOTH double bluefin_stirling(double x) {
    const double z = 1 / (x * x);
    double p = 1.0 / 156;
    p = __builtin_fma(p, z, -691.0 / 360360);
    p = __builtin_fma(p, z, 1.0 / 1188);
    p = __builtin_fma(p, z, -1.0 / 1680);
    p = __builtin_fma(p, z, 1.0 / 1260);
    p = __builtin_fma(p, z, -1.0 / 360);
    p = __builtin_fma(p, z, 1.0 / 12);
    return (x - 0.5) * bluefin_log(x) - x + 0x1.d67f1c864beb5p-1 + p / x;
}
// sin(pi (x + more / 2)).
BLUEFIN_BOTH double bluefin_sine_of_turns(double x, int more) {
    const double n = __builtin_rint(2 * x), r = __builtin_fma(n, -0.5, x) * bluefin_pi;
    const double rest = bluefin_fmod(n, 4);
    const int quarters = (int)(rest < 0 ? rest + 4 : rest) + more;
    const double s = quarters & 1 ? bluefin_cosine_part(r, 0) : bluefin_sine_part(r, 0);
    return quarters & 2 ? -s : s;
}
// sin(pi x), whose zeros have the sign of x.
BLUEFIN_BOTH double bluefin_sinpi(double x) {
    const double sine = bluefin_sine_of_turns(x, 0);
    return sine == 0 ? __builtin_copysign(sine, x) : sine;
}
// cos(pi x), whose zeros have no sign.
BLUEFIN_BOTH double bluefin_cospi(double x) { return bluefin_sine_of_turns(x, 1) + 0.0; }
// Relative error 1e-12 away from its zeros.
BLUEFIN_BOTH double bluefin_lgamma(double x) {
    if (x != x || x == BLUEFIN_INFINITY) return x;
    if (x <= 0) {
        if (__builtin_trunc(x) == x) return BLUEFIN_INFINITY;
        const double sine = __builtin_fabs(bluefin_sinpi(x));
        x = 1 - x;
        double product = 1;
        while (x < 10) product *= x++;
        return bluefin_log(bluefin_pi / sine) - (bluefin_stirling(x) - bluefin_log(product));
    }
    double product = 1;
    while (x < 10) product *= x++;
    return bluefin_stirling(x) - bluefin_log(product);
}
// Relative error 1e-12.
BLUEFIN_BOTH double bluefin_tgamma(double x) {
    if (x != x || x == BLUEFIN_INFINITY) return x;
    if (x == 0) return __builtin_copysign(BLUEFIN_INFINITY, x);
    if (x < 0) {
        if (__builtin_trunc(x) == x) return BLUEFIN_NAN;
        return bluefin_pi / (bluefin_sinpi(x) * bluefin_exp(bluefin_lgamma(1 - x)));
    }
    double product = 1;
    while (x < 10) product *= x++;
    return bluefin_exp(bluefin_stirling(x)) / product;
}

// e^(x^2) erfc(x).
BLUEFIN_BOTH double bluefin_erfcx(double x) {
    if (x != x) return x;
    if (x < 1) return x < -27 ? BLUEFIN_INFINITY : bluefin_exp(x * x) * bluefin_erfc(x);
    if (x < 28) return bluefin_scaled_erfc(x);
    const double s = 1 / (2 * x * x);
    return 0x1.20dd750429b6dp-1 / x * (1 - s * (1 - 3 * s * (1 - 5 * s * (1 - 7 * s * (1 - 9 * s)))));
}
// The number whose erf is x, by Halley's steps: of x from -1/2 to 1/2.
BLUEFIN_BOTH double bluefin_inner_erfinv(double x) {
    double y = x * 0x1.c5bf891b4ef6ap-1;
#pragma unroll 1
    for (int i = 0; i < 3; ++i) {
        const double error = 0x1.c5bf891b4ef6ap-1 * (bluefin_erf(y) - x) * bluefin_exp(y * y);
        y -= error / (1 + y * error);
    }
    return y;
}
// The number whose erfc is x: from a fraction of Abramowitz and Stegun's (26.2.23), by Halley's steps. Relative error 1e-13.
BLUEFIN_BOTH double bluefin_erfcinv(double x) {
    if (!(x > 0 && x < 2)) return x == 0 ? BLUEFIN_INFINITY : x == 2 ? -BLUEFIN_INFINITY : BLUEFIN_NAN;
    if (__builtin_fabs(1 - x) <= 0.5) return bluefin_inner_erfinv(1 - x);
    const double least = x < 1 ? x : 2 - x, t = __builtin_sqrt(-2 * bluefin_log(least / 2));
    double y = -0.70711 * ((2.30753 + t * 0.27061) / (1 + t * (0.99229 + t * 0.04481)) - t);
#pragma unroll 1
    for (int i = 0; i < 3; ++i) {
        // As a share of the slope, which may be less than any number of the type.
        const double error = 0x1.c5bf891b4ef6ap-1 * (bluefin_erfcx(y) - least * bluefin_exp(y * y));
        y += error / (1 - y * error);
    }
    return x < 1 ? y : -y;
}
BLUEFIN_BOTH double bluefin_erfinv(double x) {
    const double distance = __builtin_fabs(x);
    if (distance <= 0.5) return bluefin_inner_erfinv(x);
    return distance > 1 ? BLUEFIN_NAN : __builtin_copysign(bluefin_erfcinv(1 - distance), x);
}
