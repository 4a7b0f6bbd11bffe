// Goes before the source of a problem's reference on a GPU. With it an eval worker makes inputs, compares outputs and
// restores inputs where they are, at the speed of the device's memory, instead of moving them from and to the host. For
// clang (AMD and NVIDIA) and nvcc.
//
// All entries are launched with blocks of 256 threads, `threads` of them in all. Pointers are aligned to 256 bytes, or
// what they point to is shorter than that. A report is two counts, of what was compared and of what was wrong.

#if defined(__clang__)
#define BLUEFIN_ENTRY extern "C" __attribute__((global)) void
#define BLUEFIN_INLINE static __attribute__((device, always_inline)) inline
#define BLUEFIN_SHARED static __attribute__((shared))
#else
#define BLUEFIN_ENTRY extern "C" __global__ void
#define BLUEFIN_INLINE static __device__ __forceinline__
#define BLUEFIN_SHARED __shared__
#endif

using bluefin_u16 = unsigned short;
using bluefin_u32 = unsigned;
using bluefin_u64 = unsigned long long;
using bluefin_i64 = long long;
struct alignas(16) bluefin_vector {
    bluefin_u32 words[4];
};

#if !defined(__clang__)
BLUEFIN_INLINE int bluefin_lane() { return (int)threadIdx.x; }
BLUEFIN_INLINE bluefin_i64 bluefin_thread() { return (bluefin_i64)blockIdx.x * 256 + bluefin_lane(); }
BLUEFIN_INLINE void bluefin_barrier() { __syncthreads(); }
BLUEFIN_INLINE void bluefin_count(bluefin_u64* sum, bluefin_u64 more) { atomicAdd(sum, more); }
#elif defined(__AMDGCN__)
BLUEFIN_INLINE int bluefin_lane() { return (int)__builtin_amdgcn_workitem_id_x(); }
BLUEFIN_INLINE bluefin_i64 bluefin_thread() {
    return (bluefin_i64)__builtin_amdgcn_workgroup_id_x() * 256 + bluefin_lane();
}
BLUEFIN_INLINE void bluefin_barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#else
BLUEFIN_INLINE int bluefin_lane() { return (int)__nvvm_read_ptx_sreg_tid_x(); }
BLUEFIN_INLINE bluefin_i64 bluefin_thread() {
    return (bluefin_i64)__nvvm_read_ptx_sreg_ctaid_x() * 256 + bluefin_lane();
}
BLUEFIN_INLINE void bluefin_barrier() { __syncthreads(); }
#endif
#if defined(__clang__)
BLUEFIN_INLINE void bluefin_count(bluefin_u64* sum, bluefin_u64 more) {
    __atomic_fetch_add(sum, more, __ATOMIC_RELAXED);
}
#endif

BLUEFIN_INLINE bluefin_u64 bluefin_bits_of(double number) {
    union {
        double number;
        bluefin_u64 bits;
    } both;
    both.number = number;
    return both.bits;
}
BLUEFIN_INLINE bluefin_u32 bluefin_bits_of(float number) {
    union {
        float number;
        bluefin_u32 bits;
    } both;
    both.number = number;
    return both.bits;
}
BLUEFIN_INLINE float bluefin_float_of(bluefin_u32 bits) {
    union {
        bluefin_u32 bits;
        float number;
    } both;
    both.bits = bits;
    return both.number;
}

// Adds up what the threads of a block counted.
BLUEFIN_INLINE void bluefin_add(bluefin_u64 compared, bluefin_u64 wrong, bluefin_u64* report) {
    BLUEFIN_SHARED bluefin_u64 sums[2];
    if (bluefin_lane() < 2) sums[bluefin_lane()] = 0;
    bluefin_barrier();
    bluefin_count(&sums[0], compared);
    if (wrong) bluefin_count(&sums[1], wrong);
    bluefin_barrier();
    if (bluefin_lane() < 2) bluefin_count(&report[bluefin_lane()], sums[bluefin_lane()]);
}

// Fills `count` words with two values in turn.
BLUEFIN_ENTRY bluefin_fill(bluefin_u32* words, bluefin_i64 count, int even, int odd, bluefin_i64 threads) {
    for (bluefin_i64 i = bluefin_thread(); i < count; i += threads) words[i] = i % 2 ? odd : even;
}

BLUEFIN_ENTRY bluefin_copy(unsigned char* to, const unsigned char* from, bluefin_i64 bytes, bluefin_i64 threads) {
    const bluefin_i64 vectors = bytes >= 256 ? bytes / 16 : 0;
    for (bluefin_i64 i = bluefin_thread(); i < vectors; i += threads)
        ((bluefin_vector*)to)[i] = ((const bluefin_vector*)from)[i];
    for (bluefin_i64 i = vectors * 16 + bluefin_thread(); i < bytes; i += threads) to[i] = from[i];
}

// Counts bytes that differ, or groups of sixteen in which any does.
BLUEFIN_ENTRY bluefin_same(const unsigned char* got, const unsigned char* want, bluefin_i64 bytes, bluefin_u64* report,
                           bluefin_i64 threads) {
    bluefin_u64 compared = 0, wrong = 0;
    const bluefin_i64 vectors = bytes >= 256 ? bytes / 16 : 0;
    for (bluefin_i64 i = bluefin_thread(); i < vectors; i += threads) {
        const bluefin_vector a = ((const bluefin_vector*)got)[i], b = ((const bluefin_vector*)want)[i];
        bluefin_u32 difference = 0;
        for (int word = 0; word < 4; ++word) difference |= a.words[word] ^ b.words[word];
        compared += 16;
        wrong += difference != 0;
    }
    for (bluefin_i64 i = vectors * 16 + bluefin_thread(); i < bytes; i += threads) {
        compared += 1;
        wrong += got[i] != want[i];
    }
    bluefin_add(compared, wrong, report);
}

// IEEE 754 binary16: 1 sign, 5 exponent, 10 mantissa bits.
BLUEFIN_INLINE float bluefin_half(bluefin_u32 bits) {
    const bluefin_u32 sign = bits >> 15 << 31, exponent = bits >> 10 & 31, mantissa = bits & 1023;
    // A subnormal is a small multiple of the smallest.
    if (exponent == 0) return (sign ? -1.0f : 1.0f) * (float)mantissa * bluefin_float_of((127 - 24) << 23);
    return bluefin_float_of(sign | (exponent == 31 ? 255u : exponent + (127 - 15)) << 23 | mantissa << 13);
}

// Floats of 8 bits: those of the OCP, and those without infinities and without -0 (FNUZ), which gfx942 has.
struct bluefin_eight {
    int mantissa, bias;
    bool ieee, fnuz;
};
BLUEFIN_INLINE bluefin_eight bluefin_eight_of(int type) {
    switch (type) {
    case 7: return {3, 7, false, false};
    case 8: return {2, 15, true, false};
    case 9: return {3, 8, false, true};
    default: return {2, 16, false, true};
    }
}
BLUEFIN_INLINE float bluefin_from_eight(bluefin_u32 code, bluefin_eight of) {
    const bluefin_u32 sign = code >> 7 << 31, magnitude = code & 127;
    const bluefin_u32 exponent = magnitude >> of.mantissa, mantissa = magnitude & ((1u << of.mantissa) - 1);
    const bool top = exponent == (1u << (7 - of.mantissa)) - 1;
    if (of.fnuz ? code == 128 : of.ieee ? top && mantissa : magnitude == 127) return bluefin_float_of(0x7FC00000);
    if (of.ieee && top) return bluefin_float_of(sign | 255u << 23);
    // A subnormal is a small multiple of the smallest.
    if (exponent == 0)
        return (sign ? -1.0f : 1.0f) * (float)mantissa * bluefin_float_of((bluefin_u32)(128 - of.bias - of.mantissa) << 23);
    return bluefin_float_of(sign | (exponent + (bluefin_u32)(127 - of.bias)) << 23 | mantissa << (23 - of.mantissa));
}

// An element's number. Types: 0 FP64, 1 FP32, 2 FP16, 3 BF16, 4 INT8, 5 INT32, 6 INT64, 7 FP8, 8 BF8, 9 FP8FNUZ, 10 BF8FNUZ,
// 11 INT16, 12 UINT8, 13 UINT16, 14 UINT32, 15 UINT64, 16 BOOL.
BLUEFIN_INLINE double bluefin_number(const unsigned char* data, bluefin_i64 i, int type) {
    switch (type) {
    case 0: return ((const double*)data)[i];
    case 1: return ((const float*)data)[i];
    case 2: return bluefin_half(((const bluefin_u16*)data)[i]);
    case 3: return bluefin_float_of((bluefin_u32)((const bluefin_u16*)data)[i] << 16);
    case 4: return ((const signed char*)data)[i];
    case 5: return ((const int*)data)[i];
    case 6: return (double)((const bluefin_i64*)data)[i];
    case 11: return ((const short*)data)[i];
    case 12:
    case 16: return data[i];
    case 13: return ((const bluefin_u16*)data)[i];
    case 14: return ((const bluefin_u32*)data)[i];
    case 15: return (double)((const bluefin_u64*)data)[i];
    default: return bluefin_from_eight(data[i], bluefin_eight_of(type));
    }
}

// Bits decide what is no number, and what is infinite: a source may be compiled with flags that promise there are none.
BLUEFIN_INLINE bool bluefin_is_right(double got, double want, double absolute, double relative) {
    constexpr bluefin_u64 magnitude = ~0ull >> 1, infinite = 0x7FFull << 52;
    const bluefin_u64 g = bluefin_bits_of(got), w = bluefin_bits_of(want);
    if ((g & magnitude) > infinite || (w & magnitude) > infinite)
        return (g & magnitude) > infinite && (w & magnitude) > infinite;
    if ((g & magnitude) == infinite || (w & magnitude) == infinite) return g == w;
    const double difference = got < want ? want - got : got - want;
    return difference <= absolute + relative * (want < 0 ? -want : want);
}

// Counts elements that are further from what is wanted than the tolerance.
BLUEFIN_ENTRY bluefin_close(const unsigned char* got, const unsigned char* want, bluefin_i64 elements, int type,
                            double absolute, double relative, bluefin_u64* report, bluefin_i64 threads) {
    bluefin_u64 compared = 0, wrong = 0;
    for (bluefin_i64 i = bluefin_thread(); i < elements; i += threads) {
        compared += 1;
        wrong += !bluefin_is_right(bluefin_number(got, i, type), bluefin_number(want, i, type), absolute, relative);
    }
    bluefin_add(compared, wrong, report);
}

// Element `i` of what splitmix64 makes of `seed`: floats uniform in [-1, 1] whose magnitudes their type holds exactly,
// integers from -4 to 4, none of them zero (unsigned ones from 1 to 4), truth values. The same numbers as the eval worker makes on the host.
BLUEFIN_INLINE bluefin_u64 bluefin_splitmix(bluefin_u64 seed, bluefin_i64 i) {
    const bluefin_u64 state = seed + (bluefin_u64)(i + 1) * 0x9E3779B97F4A7C15ull;
    const bluefin_u64 once = (state ^ state >> 30) * 0xBF58476D1CE4E5B9ull;
    const bluefin_u64 twice = (once ^ once >> 27) * 0x94D049BB133111EBull;
    return twice ^ twice >> 31;
}
BLUEFIN_INLINE double bluefin_uniform(bluefin_u64 bits, int mantissa) {
    const bluefin_u64 one = 1ull << mantissa;
    const double magnitude = (double)((bits & (one - 1)) + 1) / (double)one;
    return bits >> 63 ? -magnitude : magnitude;
}
BLUEFIN_ENTRY bluefin_random(unsigned char* data, bluefin_i64 elements, int type, bluefin_u64 seed, bluefin_i64 threads) {
    for (bluefin_i64 i = bluefin_thread(); i < elements; i += threads) {
        const bluefin_u64 bits = bluefin_splitmix(seed, i);
        const int integer = bits >> 63 ? -(int)(bits % 4 + 1) : (int)(bits % 4 + 1);
        switch (type) {
        case 0: ((double*)data)[i] = bluefin_uniform(bits, 40); break;
        case 1: ((float*)data)[i] = (float)bluefin_uniform(bits, 20); break;
        case 2: {
            // No rounding, and never subnormal.
            const bluefin_u32 whole = bluefin_bits_of((float)bluefin_uniform(bits, 10));
            const bluefin_u32 exponent = (whole >> 23 & 255) - (127 - 15);
            ((bluefin_u16*)data)[i] = (bluefin_u16)(whole >> 31 << 15 | exponent << 10 | (whole >> 13 & 1023));
            break;
        }
        case 3: ((bluefin_u16*)data)[i] = (bluefin_u16)(bluefin_bits_of((float)bluefin_uniform(bits, 7)) >> 16); break;
        case 4: ((signed char*)data)[i] = (signed char)integer; break;
        case 5: ((int*)data)[i] = integer; break;
        case 6: ((bluefin_i64*)data)[i] = integer; break;
        case 11: ((short*)data)[i] = (short)integer; break;
        case 12: data[i] = (unsigned char)(bits % 4 + 1); break;
        case 13: ((bluefin_u16*)data)[i] = (bluefin_u16)(bits % 4 + 1); break;
        case 14: ((bluefin_u32*)data)[i] = (bluefin_u32)(bits % 4 + 1); break;
        case 15: ((bluefin_u64*)data)[i] = bits % 4 + 1; break;
        case 16: data[i] = (unsigned char)(bits >> 63); break;
        default: {
            // Neither rounding nor subnormals here either.
            const bluefin_eight of = bluefin_eight_of(type);
            const bluefin_u32 whole = bluefin_bits_of((float)bluefin_uniform(bits, of.mantissa + 1));
            const bluefin_u32 exponent = (whole >> 23 & 255) + (bluefin_u32)(of.bias - 127);
            data[i] = (unsigned char)(whole >> 31 << 7 | exponent << of.mantissa | (whole & 0x7FFFFF) >> (23 - of.mantissa));
        }
        }
    }
}

// The code of the number of few bits that is nearest to `number`, without its sign: of two the one whose last bit is 0, of what is too
// large `largest`.
BLUEFIN_INLINE bluefin_u32 bluefin_nearest(float number, int mantissa, int bias, bluefin_u32 largest) {
    const bluefin_u32 bits = bluefin_bits_of(number), fraction = bits & 0x7FFFFF;
    const int exponent = (int)(bits >> 23 & 255) - 127, least = 1 - bias, raised = exponent < least ? least : exponent;
    const bluefin_u32 whole = exponent == -127 ? fraction : fraction | 1u << 23;
    const int shift = 23 - mantissa + raised - exponent;
    bluefin_u32 units = shift == 0 ? whole : 0;
    if (shift > 0 && shift < 32) {
        const bluefin_u32 rest = whole & ((1u << shift) - 1), half = 1u << (shift - 1);
        units = whole >> shift;
        units += rest > half || (rest == half && (units & 1));
    }
    const bluefin_u32 code = ((bluefin_u32)(raised + bias - 1) << mantissa) + units;
    return code < largest ? code : largest;
}

// Floats uniform between `low` and `high`, both included, as the eval worker makes them on the host, but for the last bit.
BLUEFIN_ENTRY bluefin_range(unsigned char* data, bluefin_i64 elements, int type, bluefin_u64 seed, double low, double high,
                            bluefin_i64 threads) {
    for (bluefin_i64 i = bluefin_thread(); i < elements; i += threads) {
        const double share = (double)(bluefin_splitmix(seed, i) >> 11) / (double)((1ull << 53) - 1);
        double value = low + (high - low) * share;
        value = value < low ? low : value > high ? high : value;
        const float single = (float)value;
        const bluefin_u32 sign = bluefin_bits_of(single) >> 31;
        switch (type) {
        case 0: ((double*)data)[i] = value; break;
        case 1: ((float*)data)[i] = single; break;
        case 2: ((bluefin_u16*)data)[i] = (bluefin_u16)(sign << 15 | bluefin_nearest(single, 10, 15, 0x7C00)); break;
        case 3: ((bluefin_u16*)data)[i] = (bluefin_u16)(sign << 15 | bluefin_nearest(single, 7, 127, 0x7F80)); break;
        default: {
            const bluefin_eight of = bluefin_eight_of(type);
            const bluefin_u32 largest = of.ieee ? 127u - (1u << of.mantissa) : of.fnuz ? 127u : 126u;
            const bluefin_u32 code = bluefin_nearest(single, of.mantissa, of.bias, largest);
            data[i] = (unsigned char)(code == 0 ? 0 : sign << 7 | code);
        }
        }
    }
}
