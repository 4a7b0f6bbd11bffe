// Atomics, relaxed and for all threads of the device, as both dialects have them. `_block` and `_system` are of other scopes.
#pragma once

#if BLUEFIN_AMD
#define BLUEFIN_FETCH(op, to, value, scope) __hip_atomic_fetch_##op(to, value, __ATOMIC_RELAXED, scope)
#define BLUEFIN_SWAP(to, value, scope) __hip_atomic_exchange(to, value, __ATOMIC_RELAXED, scope)
#define BLUEFIN_COMPARE(to, expected, value, scope) \
    __hip_atomic_compare_exchange_strong(to, expected, value, __ATOMIC_RELAXED, __ATOMIC_RELAXED, scope)
#define BLUEFIN_ON_DEVICE __HIP_MEMORY_SCOPE_AGENT
#define BLUEFIN_IN_BLOCK __HIP_MEMORY_SCOPE_WORKGROUP
#define BLUEFIN_IN_SYSTEM __HIP_MEMORY_SCOPE_SYSTEM
#else
// Clang's have the scope of the device for NVIDIA, which is more than that of a block; nothing beside the device takes part in tuning.
#define BLUEFIN_FETCH(op, to, value, scope) __atomic_fetch_##op(to, value, __ATOMIC_RELAXED)
#define BLUEFIN_SWAP(to, value, scope) __atomic_exchange_n(to, value, __ATOMIC_RELAXED)
#define BLUEFIN_COMPARE(to, expected, value, scope) \
    __atomic_compare_exchange_n(to, expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#endif

// In front of those that CUDA lacks and HIP has: a file's own function of that name goes before a template.
#define BLUEFIN_YIELDS template <class = void>

#define BLUEFIN_EXCHANGES(suffix, T, scope)                                            \
    BLUEFIN_DEVICE T atomicExch##suffix(T* to, T value) { return BLUEFIN_SWAP(to, value, scope); } \
    BLUEFIN_DEVICE T atomicCAS##suffix(T* to, T expected, T value) {                   \
        BLUEFIN_COMPARE(to, &expected, value, scope);                                  \
        return expected;                                                               \
    }
#define BLUEFIN_SUMS(suffix, T, scope)                                                                           \
    BLUEFIN_DEVICE T atomicAdd##suffix(T* to, T value) { return BLUEFIN_FETCH(add, to, value, scope); }          \
    BLUEFIN_YIELDS BLUEFIN_DEVICE T atomicSub##suffix(T* to, T value) { return BLUEFIN_FETCH(add, to, (T)-value, scope); }
#define BLUEFIN_BITWISE(suffix, T, scope)                                                                        \
    BLUEFIN_DEVICE T atomicMin##suffix(T* to, T value) { return BLUEFIN_FETCH(min, to, value, scope); }          \
    BLUEFIN_DEVICE T atomicMax##suffix(T* to, T value) { return BLUEFIN_FETCH(max, to, value, scope); }          \
    BLUEFIN_DEVICE T atomicAnd##suffix(T* to, T value) { return BLUEFIN_FETCH(and, to, value, scope); }          \
    BLUEFIN_DEVICE T atomicOr##suffix(T* to, T value) { return BLUEFIN_FETCH(or, to, value, scope); }            \
    BLUEFIN_DEVICE T atomicXor##suffix(T* to, T value) { return BLUEFIN_FETCH(xor, to, value, scope); }
// Of floats, whose bits are exchanged as those of an integer U. What is there is read by an exchange of 0 for 0: compilers make a
// plain load of an addition of 0, and to who checks accesses that is a race.
#define BLUEFIN_FLOATS(suffix, T, U, scope)                                                       \
    BLUEFIN_DEVICE T atomicExch##suffix(T* to, T value) {                                         \
        return bluefin_bits<T>(BLUEFIN_SWAP((U*)to, bluefin_bits<U>(value), scope));              \
    }                                                                                             \
    BLUEFIN_YIELDS BLUEFIN_DEVICE T atomicCAS##suffix(T* to, T expected, T value) {                              \
        return bluefin_bits<T>(atomicCAS##suffix((U*)to, bluefin_bits<U>(expected), bluefin_bits<U>(value))); \
    }                                                                                             \
    BLUEFIN_YIELDS BLUEFIN_DEVICE T atomicMin##suffix(T* to, T value) {                                          \
        T found = bluefin_bits<T>(atomicCAS##suffix((U*)to, (U)0, (U)0));                         \
        while (value < found) {                                                                   \
            const T before = atomicCAS##suffix(to, found, value);                                 \
            if (bluefin_bits<U>(before) == bluefin_bits<U>(found)) break;                         \
            found = before;                                                                       \
        }                                                                                         \
        return found;                                                                             \
    }                                                                                             \
    BLUEFIN_YIELDS BLUEFIN_DEVICE T atomicMax##suffix(T* to, T value) {                                          \
        T found = bluefin_bits<T>(atomicCAS##suffix((U*)to, (U)0, (U)0));                         \
        while (found < value) {                                                                   \
            const T before = atomicCAS##suffix(to, found, value);                                 \
            if (bluefin_bits<U>(before) == bluefin_bits<U>(found)) break;                         \
            found = before;                                                                       \
        }                                                                                         \
        return found;                                                                             \
    }
// The old value plus one, or 0 behind `last`; minus one, or `last` behind 0 and beyond it.
#if BLUEFIN_AMD
#define BLUEFIN_WRAPPING(suffix, words)                                                                             \
    BLUEFIN_DEVICE unsigned atomicInc##suffix(unsigned* to, unsigned last) {                                        \
        return __builtin_amdgcn_atomic_inc32(to, last, __ATOMIC_RELAXED, words);                                    \
    }                                                                                                               \
    BLUEFIN_DEVICE unsigned atomicDec##suffix(unsigned* to, unsigned last) {                                        \
        return __builtin_amdgcn_atomic_dec32(to, last, __ATOMIC_RELAXED, words);                                    \
    }
#else
#define BLUEFIN_WRAPPING(suffix, words)                                                                                      \
    BLUEFIN_DEVICE unsigned atomicInc##suffix(unsigned* to, unsigned last) { return __nvvm_atom_inc_gen_ui(to, last); }      \
    BLUEFIN_DEVICE unsigned atomicDec##suffix(unsigned* to, unsigned last) { return __nvvm_atom_dec_gen_ui(to, last); }
#endif

#define BLUEFIN_ATOMICS(suffix, scope, words)                             \
    BLUEFIN_EXCHANGES(suffix, int, scope)                                 \
    BLUEFIN_EXCHANGES(suffix, unsigned, scope)                            \
    BLUEFIN_EXCHANGES(suffix, long long, scope)                           \
    BLUEFIN_EXCHANGES(suffix, unsigned long long, scope)                  \
    BLUEFIN_EXCHANGES(suffix, unsigned long, scope)                       \
    BLUEFIN_SUMS(suffix, int, scope)                                      \
    BLUEFIN_SUMS(suffix, unsigned, scope)                                 \
    BLUEFIN_SUMS(suffix, long long, scope)                                \
    BLUEFIN_SUMS(suffix, unsigned long long, scope)                       \
    BLUEFIN_SUMS(suffix, unsigned long, scope)                            \
    BLUEFIN_SUMS(suffix, float, scope)                                    \
    BLUEFIN_SUMS(suffix, double, scope)                                   \
    BLUEFIN_BITWISE(suffix, int, scope)                                   \
    BLUEFIN_BITWISE(suffix, unsigned, scope)                              \
    BLUEFIN_BITWISE(suffix, long long, scope)                             \
    BLUEFIN_BITWISE(suffix, unsigned long long, scope)                    \
    BLUEFIN_FLOATS(suffix, float, unsigned, scope)                        \
    BLUEFIN_FLOATS(suffix, double, unsigned long long, scope)             \
    BLUEFIN_WRAPPING(suffix, words)

BLUEFIN_ATOMICS(, BLUEFIN_ON_DEVICE, "agent")
BLUEFIN_ATOMICS(_block, BLUEFIN_IN_BLOCK, "workgroup")
BLUEFIN_ATOMICS(_system, BLUEFIN_IN_SYSTEM, "")
#if !BLUEFIN_CUDA
BLUEFIN_DEVICE float unsafeAtomicAdd(float* to, float value) { return atomicAdd(to, value); }
BLUEFIN_DEVICE double unsafeAtomicAdd(double* to, double value) { return atomicAdd(to, value); }
BLUEFIN_DEVICE float atomicAddNoRet(float* to, float value) { return atomicAdd(to, value); }
#endif
