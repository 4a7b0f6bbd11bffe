// What inline PTX means on an AMD GPU: a statement that is understood has words of C++ beside it, in which these functions stand.
#pragma once

#if !BLUEFIN_CUDA || !defined(__AMDGCN__) || defined(__NVCC__)
#define bluefin_inline(given, ...) given
#else
#define bluefin_inline(given, ...) \
    do {                        \
        __VA_ARGS__             \
    } while (0)

using bluefin_halves = _Float16 __attribute__((ext_vector_type(2)));

// The bits of a register as those of another type: a narrower one has the lower bits of a wider one.
template <class To, class From> BLUEFIN_DEVICE To bluefin_get(From from) {
    if constexpr (sizeof(To) == sizeof(From)) {
        return __builtin_bit_cast(To, from);
    } else {
        To to = {};
        __builtin_memcpy(&to, &from, sizeof(To) < sizeof(From) ? sizeof(To) : sizeof(From));
        return to;
    }
}
template <class To, class From> BLUEFIN_DEVICE void bluefin_set(To& to, From from) {
    if constexpr (sizeof(To) == sizeof(From)) {
        to = __builtin_bit_cast(To, from);
    } else if constexpr (__is_integral(To) && __is_integral(From)) {
        to = (To)from;
    } else {
        to = bluefin_get<To>(from);
    }
}
template <class T> using bluefin_of_shared = T __attribute__((address_space(3)));
template <class T> BLUEFIN_DEVICE T* bluefin_shared(unsigned long long address) {
    return (T*)(bluefin_of_shared<T>*)(unsigned)address;
}
BLUEFIN_DEVICE unsigned bluefin_lane() { return __lane_id() % 32; }
BLUEFIN_DEVICE unsigned bluefin_thread() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }

BLUEFIN_DEVICE float bluefin_fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
BLUEFIN_DEVICE double bluefin_fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
BLUEFIN_DEVICE _Float16 bluefin_fused(_Float16 a, _Float16 b, _Float16 c) { return __builtin_fmaf16(a, b, c); }
BLUEFIN_DEVICE bluefin_halves bluefin_fused(bluefin_halves a, bluefin_halves b, bluefin_halves c) {
    return __builtin_elementwise_fma(a, b, c);
}
template <class T> BLUEFIN_DEVICE T bluefin_min(T a, T b) { return b < a ? b : a; }
template <class T> BLUEFIN_DEVICE T bluefin_max(T a, T b) { return a < b ? b : a; }
BLUEFIN_DEVICE float bluefin_min(float a, float b) { return __builtin_fminf(a, b); }
BLUEFIN_DEVICE float bluefin_max(float a, float b) { return __builtin_fmaxf(a, b); }
BLUEFIN_DEVICE bluefin_halves bluefin_min(bluefin_halves a, bluefin_halves b) { return __builtin_elementwise_min(a, b); }
BLUEFIN_DEVICE bluefin_halves bluefin_max(bluefin_halves a, bluefin_halves b) { return __builtin_elementwise_max(a, b); }
// Of a number and what is none, the number.
BLUEFIN_DEVICE double bluefin_min(double a, double b) { return __builtin_fmin(a, b); }
BLUEFIN_DEVICE double bluefin_max(double a, double b) { return __builtin_fmax(a, b); }
BLUEFIN_DEVICE _Float16 bluefin_min(_Float16 a, _Float16 b) { return (_Float16)__builtin_fminf((float)a, (float)b); }
BLUEFIN_DEVICE _Float16 bluefin_max(_Float16 a, _Float16 b) { return (_Float16)__builtin_fmaxf((float)a, (float)b); }
template <class T> BLUEFIN_DEVICE T bluefin_absolute(T a) { return a < 0 ? (T)(0ull - (unsigned long long)a) : a; }
BLUEFIN_DEVICE float bluefin_absolute(float a) { return __builtin_fabsf(a); }
BLUEFIN_DEVICE double bluefin_absolute(double a) { return __builtin_fabs(a); }
BLUEFIN_DEVICE _Float16 bluefin_absolute(_Float16 a) { return (_Float16)__builtin_fabsf((float)a); }
BLUEFIN_DEVICE bluefin_halves bluefin_absolute(bluefin_halves a) { return __builtin_elementwise_abs(a); }
BLUEFIN_DEVICE float bluefin_root(float a) { return sqrtf(a); }
BLUEFIN_DEVICE double bluefin_root(double a) { return sqrt(a); }
// Shifts by more than there are bits leave nothing, or the sign.
template <class T> BLUEFIN_DEVICE T bluefin_shl(T a, unsigned by) { return by < sizeof(T) * 8 ? (T)(a << by) : T(0); }
template <class T> BLUEFIN_DEVICE T bluefin_shr(T a, unsigned by) {
    return by < sizeof(T) * 8 ? (T)(a >> by) : a < 0 ? (T)-1 : T(0);
}
template <class T> BLUEFIN_DEVICE T bluefin_bits_from(T a, unsigned at, unsigned count) {
    at &= 255, count &= 255;
    if (count == 0) return 0;
    const unsigned bits = sizeof(T) * 8, end = at + count < bits ? at + count : bits;
    if (at >= bits) return bluefin_shr(a, bits) & (T(-1) < 0 ? T(-1) : T(0));
    return (T)(bluefin_shl(a, bits - end)) >> (bits - (end - at));
}
template <class T> BLUEFIN_DEVICE T bluefin_bits_into(T a, T into, unsigned at, unsigned count) {
    const T ones = (count & 255) < sizeof(T) * 8 ? (T(1) << (count & 255)) - 1 : ~T(0), mask = bluefin_shl(ones, at & 255);
    return (into & ~mask) | (bluefin_shl(a, at & 255) & mask);
}
BLUEFIN_DEVICE unsigned bluefin_logic(unsigned a, unsigned b, unsigned c, unsigned table) {
    unsigned found = 0;
#pragma unroll
    for (int row = 0; row < 8; ++row) {
        const unsigned is = (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
        if (table >> row & 1) found |= is;
    }
    return found;
}
// Sums with the carry of one before, which is that of the next then.
template <class T> BLUEFIN_DEVICE T bluefin_sum(T a, T b, unsigned& carry) {
    const T plain = a + b, sum = plain + carry;
    carry = plain < a || sum < plain;
    return sum;
}
template <class T> BLUEFIN_DEVICE T bluefin_difference(T a, T b, unsigned& borrow) {
    const T plain = a - b, left = plain - borrow;
    borrow = a < b || plain < borrow;
    return left;
}
BLUEFIN_DEVICE int bluefin_upper(int a, int b) { return __mulhi(a, b); }
BLUEFIN_DEVICE unsigned bluefin_upper(unsigned a, unsigned b) { return __umulhi(a, b); }
BLUEFIN_DEVICE long long bluefin_upper(long long a, long long b) { return __mul64hi(a, b); }
BLUEFIN_DEVICE unsigned long long bluefin_upper(unsigned long long a, unsigned long long b) { return __umul64hi(a, b); }
// What is beyond a type's numbers becomes the nearest of them, and what is no number 0, or the upper bit of 64.
template <class T> BLUEFIN_DEVICE constexpr T bluefin_most() {
    return T(-1) < 0 ? (T)(~0ull >> (65 - sizeof(T) * 8)) : (T)~0ull;
}
template <class T> BLUEFIN_DEVICE T bluefin_whole(float a) {
    const T most = bluefin_most<T>(), least = T(-1) < 0 ? (T)(-most - 1) : T(0);
    return a != a ? (sizeof(T) == 8 ? (T)(1ull << 63) : T(0)) : a >= (float)most ? most : a <= (float)least ? least : (T)a;
}
template <class T, class From> BLUEFIN_DEVICE T bluefin_saturated(From a) {
    const T most = bluefin_most<T>(), least = T(-1) < 0 ? (T)(-most - 1) : T(0);
    if (a < 0) return From(-1) < 0 && (long long)a < (long long)least ? least : (T)a;
    return (unsigned long long)a > (unsigned long long)most ? most : (T)a;
}
BLUEFIN_DEVICE bluefin_halves bluefin_halves_of(float low, float high) { return {(_Float16)low, (_Float16)high}; }

// Loads and stores with an order, by their bits.
template <int BYTES> struct bluefin_bits_of { using type = unsigned; };
template <> struct bluefin_bits_of<1> { using type = unsigned char; };
template <> struct bluefin_bits_of<2> { using type = unsigned short; };
template <> struct bluefin_bits_of<8> { using type = unsigned long long; };
template <int ORDER, class T> BLUEFIN_DEVICE T bluefin_load(T* from) {
    using U = typename bluefin_bits_of<sizeof(T)>::type;
    return __builtin_bit_cast(T, __atomic_load_n((U*)from, ORDER));
}
template <int ORDER, class T> BLUEFIN_DEVICE void bluefin_store(T* to, T value) {
    using U = typename bluefin_bits_of<sizeof(T)>::type;
    __atomic_store_n((U*)to, __builtin_bit_cast(U, value), ORDER);
}

// Copies `bytes` into shared memory, of which what is behind the first `valid` are zeros.
BLUEFIN_DEVICE void bluefin_copy(unsigned long long to, unsigned long long from, unsigned bytes, unsigned valid) {
    unsigned* const words = bluefin_shared<unsigned>(to);
    for (unsigned at = 0; at < bytes; at += 4) {
        unsigned word = 0;
        if (at + 4 <= valid) {
            word = *(const unsigned*)(from + at);
        } else {
            for (unsigned byte = at; byte < valid; ++byte) word |= (unsigned)*(const unsigned char*)(from + byte) << (byte - at) * 8;
        }
        words[at / 4] = word;
    }
}

// `ldmatrix`: the lanes 8 * i and on say where the rows of the matrix `i` are.
template <bool TURNED, int N> BLUEFIN_DEVICE void bluefin_matrix(unsigned (&into)[N], unsigned address) {
    const unsigned lane = bluefin_lane();
#pragma unroll
    for (unsigned i = 0; i < N; ++i) {
        if constexpr (TURNED) {
            const unsigned first = __shfl_sync(~0u, address, i * 8 + lane % 4 * 2), second = __shfl_sync(~0u, address, i * 8 + lane % 4 * 2 + 1);
            const unsigned low = *bluefin_shared<unsigned short>(first + lane / 4 * 2), high = *bluefin_shared<unsigned short>(second + lane / 4 * 2);
            into[i] = low | high << 16;
        } else {
            const unsigned row = __shfl_sync(~0u, address, i * 8 + lane / 4);
            into[i] = *bluefin_shared<unsigned>(row + lane % 4 * 4);
        }
    }
}

// `mma`: 16 rows of `a` by 8 columns of `b`, whose elements lanes have in pairs. A warp's lanes compute two elements of each half of the rows.
struct bluefin_of_f16 {
    BLUEFIN_MEMBER static float at(unsigned pair, int half) { return (float)__builtin_bit_cast(_Float16, (unsigned short)(pair >> half * 16)); }
};
struct bluefin_of_bf16 {
    BLUEFIN_MEMBER static float at(unsigned pair, int half) { return __builtin_bit_cast(float, half ? pair & 0xffff0000u : pair << 16); }
};
struct bluefin_of_f32 {};
template <class T, class Sum, int D, int A, int B, int C>
BLUEFIN_DEVICE void bluefin_product(unsigned (&d)[D], const unsigned (&a)[A], const unsigned (&b)[B], const unsigned (&c)[C]) {
    static_assert(A == 2 * B && D == C && D == (__is_same(Sum, bluefin_of_f32) ? 4 : 2), "registers of an mma");
    const unsigned lane = bluefin_lane();
    float sums[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if constexpr (D == 4) {
            sums[i] = __builtin_bit_cast(float, c[i]);
        } else {
            sums[i] = bluefin_of_f16::at(c[i / 2], i % 2);
        }
    }
#pragma unroll
    for (int k = 0; k < B * 8; ++k) {
        const unsigned from = k % 8 / 2;
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const float left = T::at(__shfl_sync(~0u, a[row + k / 8 * 2], lane / 4 * 4 + from), k % 2);
#pragma unroll
            for (int column = 0; column < 2; ++column) {
                const float right = T::at(__shfl_sync(~0u, b[k / 8], (lane % 4 * 2 + column) * 4 + from), k % 2);
                sums[row * 2 + column] = __builtin_fmaf(left, right, sums[row * 2 + column]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < D; ++i) {
        if constexpr (D == 4) {
            d[i] = __builtin_bit_cast(unsigned, sums[i]);
        } else {
            const bluefin_halves pair = {(_Float16)sums[2 * i], (_Float16)sums[2 * i + 1]};
            d[i] = __builtin_bit_cast(unsigned, pair);
        }
    }
}
#endif
