// `cuda::atomic_ref` and `cuda::atomic`: atomics with an order and a scope, by clang's own.
#pragma once
#include "bluefin/gpu.h"

namespace cuda {
namespace std {
enum class memory_order : int {
    relaxed = __ATOMIC_RELAXED,
    consume = __ATOMIC_CONSUME,
    acquire = __ATOMIC_ACQUIRE,
    release = __ATOMIC_RELEASE,
    acq_rel = __ATOMIC_ACQ_REL,
    seq_cst = __ATOMIC_SEQ_CST,
};
static constexpr memory_order memory_order_relaxed = memory_order::relaxed;
static constexpr memory_order memory_order_consume = memory_order::consume;
static constexpr memory_order memory_order_acquire = memory_order::acquire;
static constexpr memory_order memory_order_release = memory_order::release;
static constexpr memory_order memory_order_acq_rel = memory_order::acq_rel;
static constexpr memory_order memory_order_seq_cst = memory_order::seq_cst;
}  // namespace std
using std::memory_order;
using std::memory_order_relaxed;
using std::memory_order_consume;
using std::memory_order_acquire;
using std::memory_order_release;
using std::memory_order_acq_rel;
using std::memory_order_seq_cst;
enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };
}  // namespace cuda

// Only a number that is written down is an order or a scope to clang.
#if BLUEFIN_AMD
#define BLUEFIN_IN_SCOPE(S, call, order)                                                       \
    switch (S) {                                                                               \
        case ::cuda::thread_scope_system: call(order, __HIP_MEMORY_SCOPE_SYSTEM);              \
        case ::cuda::thread_scope_device: call(order, __HIP_MEMORY_SCOPE_AGENT);               \
        case ::cuda::thread_scope_block: call(order, __HIP_MEMORY_SCOPE_WORKGROUP);            \
        default: call(order, __HIP_MEMORY_SCOPE_SINGLETHREAD);                                 \
    }
#define BLUEFIN_ATOMIC_LOAD(order, scope) return __hip_atomic_load(to, order, scope)
#define BLUEFIN_ATOMIC_STORE(order, scope) return __hip_atomic_store(to, value, order, scope)
#define BLUEFIN_ATOMIC_SWAP(order, scope) return __hip_atomic_exchange(to, value, order, scope)
#define BLUEFIN_ATOMIC_ADD(order, scope) return __hip_atomic_fetch_add(to, value, order, scope)
#define BLUEFIN_ATOMIC_COMPARE(order, scope) \
    return __hip_atomic_compare_exchange_strong(to, expected, value, order, __ATOMIC_ACQUIRE, scope)
#else
#define BLUEFIN_IN_SCOPE(S, call, order) call(order, S);
#define BLUEFIN_ATOMIC_LOAD(order, scope) \
    T found;                              \
    __atomic_load(to, &found, order);     \
    return found
#define BLUEFIN_ATOMIC_STORE(order, scope) return __atomic_store(to, &value, order)
#define BLUEFIN_ATOMIC_SWAP(order, scope)        \
    T found;                                     \
    __atomic_exchange(to, &value, &found, order); \
    return found
#define BLUEFIN_ATOMIC_ADD(order, scope) return __atomic_fetch_add(to, value, order)
#define BLUEFIN_ATOMIC_COMPARE(order, scope) \
    return __atomic_compare_exchange(to, expected, &value, false, order, __ATOMIC_ACQUIRE)
#endif

// An order may be known at run time alone. One that a load or a store can not have is the strongest that it can.
#define BLUEFIN_BY_ORDER(S, call)                                          \
    switch (order) {                                                       \
        case std::memory_order::relaxed: BLUEFIN_IN_SCOPE(S, call, __ATOMIC_RELAXED) \
        case std::memory_order::consume:                                   \
        case std::memory_order::acquire: BLUEFIN_IN_SCOPE(S, call, __ATOMIC_ACQUIRE) \
        case std::memory_order::release: BLUEFIN_IN_SCOPE(S, call, __ATOMIC_RELEASE) \
        case std::memory_order::acq_rel: BLUEFIN_IN_SCOPE(S, call, __ATOMIC_ACQ_REL) \
        default: BLUEFIN_IN_SCOPE(S, call, __ATOMIC_SEQ_CST)               \
    }

namespace cuda {
template <thread_scope S, class T> BLUEFIN_DEVICE T bluefin_load(T* to, memory_order order) {
    switch (order) {
        case std::memory_order::relaxed: BLUEFIN_IN_SCOPE(S, BLUEFIN_ATOMIC_LOAD, __ATOMIC_RELAXED)
        case std::memory_order::consume:
        case std::memory_order::acquire: BLUEFIN_IN_SCOPE(S, BLUEFIN_ATOMIC_LOAD, __ATOMIC_ACQUIRE)
        default: BLUEFIN_IN_SCOPE(S, BLUEFIN_ATOMIC_LOAD, __ATOMIC_SEQ_CST)
    }
}
template <thread_scope S, class T> BLUEFIN_DEVICE void bluefin_store(T* to, T value, memory_order order) {
    switch (order) {
        case std::memory_order::relaxed: BLUEFIN_IN_SCOPE(S, BLUEFIN_ATOMIC_STORE, __ATOMIC_RELAXED)
        case std::memory_order::release: BLUEFIN_IN_SCOPE(S, BLUEFIN_ATOMIC_STORE, __ATOMIC_RELEASE)
        default: BLUEFIN_IN_SCOPE(S, BLUEFIN_ATOMIC_STORE, __ATOMIC_SEQ_CST)
    }
}
template <thread_scope S, class T> BLUEFIN_DEVICE T bluefin_swap(T* to, T value, memory_order order) {
    BLUEFIN_BY_ORDER(S, BLUEFIN_ATOMIC_SWAP)
}
template <thread_scope S, class T> BLUEFIN_DEVICE bool bluefin_compare(T* to, T* expected, T value, memory_order order) {
    BLUEFIN_BY_ORDER(S, BLUEFIN_ATOMIC_COMPARE)
}
template <thread_scope S, class T> BLUEFIN_DEVICE T bluefin_add(T* to, T value, memory_order order) {
    BLUEFIN_BY_ORDER(S, BLUEFIN_ATOMIC_ADD)
}
template <thread_scope S, class T, class Join>
BLUEFIN_DEVICE T bluefin_joined(T* to, T value, memory_order order, Join join) {
    T found = bluefin_load<S>(to, memory_order_relaxed);
    while (!bluefin_compare<S>(to, &found, join(found, value), order)) {}
    return found;
}

// What both have; `to` is where the value is.
#define BLUEFIN_ATOMIC_WORD __attribute__((device, always_inline)) inline
#define BLUEFIN_JOINS(name, T, S, joined)                                                                   \
    BLUEFIN_ATOMIC_WORD T name(T value, memory_order order = memory_order_seq_cst) const {                  \
        return bluefin_joined<S>(bluefin_to(), value, order, [](T a, T b) __attribute__((device)) -> T { return joined; }); \
    }
#define BLUEFIN_ATOMIC_WORDS(T, S)                                                                          \
    using value_type = T;                                                                                   \
    static constexpr bool is_always_lock_free = true;                                                       \
    BLUEFIN_ATOMIC_WORD bool is_lock_free() const { return true; }                                          \
    BLUEFIN_ATOMIC_WORD T load(memory_order order = memory_order_seq_cst) const { return bluefin_load<S>(bluefin_to(), order); } \
    BLUEFIN_ATOMIC_WORD operator T() const { return load(); }                                               \
    BLUEFIN_ATOMIC_WORD void store(T value, memory_order order = memory_order_seq_cst) const {              \
        bluefin_store<S>(bluefin_to(), value, order);                                                       \
    }                                                                                                       \
    BLUEFIN_ATOMIC_WORD T operator=(T value) const {                                                        \
        store(value);                                                                                       \
        return value;                                                                                       \
    }                                                                                                       \
    BLUEFIN_ATOMIC_WORD T exchange(T value, memory_order order = memory_order_seq_cst) const {              \
        return bluefin_swap<S>(bluefin_to(), value, order);                                                 \
    }                                                                                                       \
    BLUEFIN_ATOMIC_WORD bool compare_exchange_strong(T& expected, T value, memory_order order = memory_order_seq_cst) const { \
        return bluefin_compare<S>(bluefin_to(), &expected, value, order);                                   \
    }                                                                                                       \
    BLUEFIN_ATOMIC_WORD bool compare_exchange_strong(T& expected, T value, memory_order order, memory_order) const { \
        return bluefin_compare<S>(bluefin_to(), &expected, value, order);                                   \
    }                                                                                                       \
    BLUEFIN_ATOMIC_WORD bool compare_exchange_weak(T& expected, T value, memory_order order = memory_order_seq_cst) const { \
        return bluefin_compare<S>(bluefin_to(), &expected, value, order);                                   \
    }                                                                                                       \
    BLUEFIN_ATOMIC_WORD bool compare_exchange_weak(T& expected, T value, memory_order order, memory_order) const { \
        return bluefin_compare<S>(bluefin_to(), &expected, value, order);                                   \
    }                                                                                                       \
    BLUEFIN_ATOMIC_WORD T fetch_add(T value, memory_order order = memory_order_seq_cst) const {             \
        return bluefin_add<S>(bluefin_to(), value, order);                                                  \
    }                                                                                                       \
    BLUEFIN_ATOMIC_WORD T fetch_sub(T value, memory_order order = memory_order_seq_cst) const {             \
        return bluefin_add<S>(bluefin_to(), (T)-value, order);                                              \
    }                                                                                                       \
    BLUEFIN_JOINS(fetch_min, T, S, b < a ? b : a)                                                           \
    BLUEFIN_JOINS(fetch_max, T, S, a < b ? b : a)                                                           \
    BLUEFIN_JOINS(fetch_and, T, S, a & b)                                                                   \
    BLUEFIN_JOINS(fetch_or, T, S, a | b)                                                                    \
    BLUEFIN_JOINS(fetch_xor, T, S, a ^ b)                                                                   \
    BLUEFIN_ATOMIC_WORD T operator++() const { return fetch_add((T)1) + (T)1; }                             \
    BLUEFIN_ATOMIC_WORD T operator++(int) const { return fetch_add((T)1); }                                 \
    BLUEFIN_ATOMIC_WORD T operator--() const { return fetch_sub((T)1) - (T)1; }                             \
    BLUEFIN_ATOMIC_WORD T operator--(int) const { return fetch_sub((T)1); }                                 \
    BLUEFIN_ATOMIC_WORD T operator+=(T value) const { return fetch_add(value) + value; }                    \
    BLUEFIN_ATOMIC_WORD T operator-=(T value) const { return fetch_sub(value) - value; }

template <class T, thread_scope S = thread_scope_system> struct atomic_ref {
    T* bluefin_at;
    __attribute__((device)) explicit atomic_ref(T& at) : bluefin_at(&at) {}
    BLUEFIN_ATOMIC_WORD T* bluefin_to() const { return bluefin_at; }
    BLUEFIN_ATOMIC_WORDS(T, S)
};
template <class T, thread_scope S = thread_scope_system> struct atomic {
    T bluefin_held;
    atomic() = default;
    __attribute__((device, host)) constexpr atomic(T value) : bluefin_held(value) {}
    BLUEFIN_ATOMIC_WORD T* bluefin_to() const { return const_cast<T*>(&bluefin_held); }
    BLUEFIN_ATOMIC_WORDS(T, S)
};
BLUEFIN_DEVICE void atomic_thread_fence(memory_order, thread_scope scope = thread_scope_system) {
    if (scope == thread_scope_system) __threadfence_system();
    if (scope == thread_scope_device) __threadfence();
    if (scope == thread_scope_block) __threadfence_block();
}
namespace std {
template <class T> using atomic_ref = ::cuda::atomic_ref<T, thread_scope_system>;
template <class T> using atomic = ::cuda::atomic<T, thread_scope_system>;
BLUEFIN_DEVICE void atomic_thread_fence(memory_order order) { ::cuda::atomic_thread_fence(order); }
}  // namespace std
}  // namespace cuda
