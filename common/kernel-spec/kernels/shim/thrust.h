// What kernels use of Thrust: function objects, pairs and tuples, algorithms that a thread does alone. Vectors are the host's: their types are
// here, with nothing in them.
#pragma once

#include "bluefin/libraries.h"
#include "bluefin/complex.h"
#if __has_include(<tuple>)
#include <tuple>
#endif

#define THRUST_VERSION 200000
namespace thrust {
#if __has_include(<tuple>)
using std::get;
using std::make_pair;
using std::make_tuple;
using std::pair;
using std::tie;
using std::tuple;
using std::tuple_element;
using std::tuple_size;
#endif

#define BLUEFIN_FUNCTION(name, value)                                                                               \
    template <class T = void> struct name {                                                                         \
        BLUEFIN_MEMBER_OF_BOTH constexpr auto operator()(const T& a, const T& b) const { return value; }            \
    };                                                                                                              \
    template <> struct name<void> {                                                                                 \
        template <class T, class U> BLUEFIN_MEMBER_OF_BOTH constexpr auto operator()(const T& a, const U& b) const { return value; } \
    };
BLUEFIN_FUNCTION(plus, a + b)
BLUEFIN_FUNCTION(minus, a - b)
BLUEFIN_FUNCTION(multiplies, a * b)
BLUEFIN_FUNCTION(divides, a / b)
BLUEFIN_FUNCTION(modulus, a % b)
BLUEFIN_FUNCTION(maximum, a < b ? b : a)
BLUEFIN_FUNCTION(minimum, b < a ? b : a)
BLUEFIN_FUNCTION(less, a < b)
BLUEFIN_FUNCTION(less_equal, a <= b)
BLUEFIN_FUNCTION(greater, a > b)
BLUEFIN_FUNCTION(greater_equal, a >= b)
BLUEFIN_FUNCTION(equal_to, a == b)
BLUEFIN_FUNCTION(not_equal_to, a != b)
BLUEFIN_FUNCTION(logical_and, a && b)
BLUEFIN_FUNCTION(logical_or, a || b)
BLUEFIN_FUNCTION(bit_and, a & b)
BLUEFIN_FUNCTION(bit_or, a | b)
BLUEFIN_FUNCTION(bit_xor, a ^ b)
#undef BLUEFIN_FUNCTION
template <class T = void> struct negate {
    BLUEFIN_MEMBER_OF_BOTH constexpr T operator()(const T& a) const { return -a; }
};
template <> struct negate<void> {
    template <class T> BLUEFIN_MEMBER_OF_BOTH constexpr auto operator()(const T& a) const { return -a; }
};
template <class T = void> struct identity {
    BLUEFIN_MEMBER_OF_BOTH constexpr const T& operator()(const T& a) const { return a; }
};
template <> struct identity<void> {
    template <class T> BLUEFIN_MEMBER_OF_BOTH constexpr const T& operator()(const T& a) const { return a; }
};
template <class A = void, class R = void> struct unary_function {
    using argument_type = A;
    using result_type = R;
};
template <class A = void, class B = void, class R = void> struct binary_function {
    using first_argument_type = A;
    using second_argument_type = B;
    using result_type = R;
};

template <class T> BLUEFIN_BOTH constexpr T(min)(const T& a, const T& b) { return b < a ? b : a; }
template <class T> BLUEFIN_BOTH constexpr T(max)(const T& a, const T& b) { return a < b ? b : a; }
template <class T> BLUEFIN_BOTH void swap(T& a, T& b) {
    const T first = a;
    a = b;
    b = first;
}

// How an algorithm is carried out: in a kernel by the thread that calls it.
struct bluefin_policy {
    template <class... Values> BLUEFIN_MEMBER_OF_BOTH constexpr bluefin_policy on(Values&&...) const { return {}; }
    template <class... Values> BLUEFIN_MEMBER_OF_BOTH constexpr bluefin_policy operator()(Values&&...) const { return {}; }
};
static constexpr bluefin_policy device, seq, host;
namespace cuda {
static constexpr bluefin_policy par, par_nosync;
}
namespace hip {
static constexpr bluefin_policy par, par_nosync;
}
template <class I> using bluefin_value = __remove_cvref(decltype(*(I&)*(I*)nullptr));
template <class I, class T, class Join> BLUEFIN_DEVICE T reduce(const bluefin_policy&, I from, I to, T value, Join join) {
    for (; from != to; ++from) value = join(value, *from);
    return value;
}
template <class I, class T> BLUEFIN_DEVICE T reduce(const bluefin_policy& how, I from, I to, T value) {
    return reduce(how, from, to, value, plus<>());
}
template <class I> BLUEFIN_DEVICE bluefin_value<I> reduce(const bluefin_policy& how, I from, I to) {
    return reduce(how, from, to, bluefin_value<I>(), plus<>());
}
template <class I, class O, class Join> BLUEFIN_DEVICE O inclusive_scan(const bluefin_policy&, I from, I to, O out, Join join) {
    if (from == to) return out;
    bluefin_value<I> value = *from;
    *out = value;
    for (++from, ++out; from != to; ++from, ++out) *out = value = join(value, *from);
    return out;
}
template <class I, class O> BLUEFIN_DEVICE O inclusive_scan(const bluefin_policy& how, I from, I to, O out) {
    return inclusive_scan(how, from, to, out, plus<>());
}
template <class I, class O, class T, class Join>
BLUEFIN_DEVICE O exclusive_scan(const bluefin_policy&, I from, I to, O out, T value, Join join) {
    for (; from != to; ++from, ++out) {
        const T next = join(value, *from);
        *out = value;
        value = next;
    }
    return out;
}
template <class I, class O, class T> BLUEFIN_DEVICE O exclusive_scan(const bluefin_policy& how, I from, I to, O out, T value) {
    return exclusive_scan(how, from, to, out, value, plus<>());
}
template <class I, class O> BLUEFIN_DEVICE O exclusive_scan(const bluefin_policy& how, I from, I to, O out) {
    return exclusive_scan(how, from, to, out, bluefin_value<I>(), plus<>());
}
template <class I, class O, class F> BLUEFIN_DEVICE O transform(const bluefin_policy&, I from, I to, O out, F function) {
    for (; from != to; ++from, ++out) *out = function(*from);
    return out;
}
template <class I, class J, class O, class F>
BLUEFIN_DEVICE O transform(const bluefin_policy&, I from, I to, J other, O out, F function) {
    for (; from != to; ++from, ++other, ++out) *out = function(*from, *other);
    return out;
}
template <class I, class F> BLUEFIN_DEVICE I for_each(const bluefin_policy&, I from, I to, F function) {
    for (; from != to; ++from) function(*from);
    return from;
}
template <class I, class T> BLUEFIN_DEVICE void fill(const bluefin_policy&, I from, I to, const T& value) {
    for (; from != to; ++from) *from = value;
}
template <class I, class O> BLUEFIN_DEVICE O copy(const bluefin_policy&, I from, I to, O out) {
    for (; from != to; ++from, ++out) *out = *from;
    return out;
}
template <class I, class Before> BLUEFIN_DEVICE void sort(const bluefin_policy&, I from, I to, Before before) {
    if (from == to) return;
    for (I at = from + 1; at != to; ++at) {
        const bluefin_value<I> value = *at;
        I place = at;
        for (; place != from && before(value, *(place - 1)); --place) *place = *(place - 1);
        *place = value;
    }
}
template <class I> BLUEFIN_DEVICE void sort(const bluefin_policy& how, I from, I to) { sort(how, from, to, less<>()); }
template <class I, class Before> BLUEFIN_DEVICE void stable_sort(const bluefin_policy& how, I from, I to, Before before) {
    sort(how, from, to, before);
}
template <class I, class T> BLUEFIN_DEVICE I lower_bound(const bluefin_policy&, I from, I to, const T& value) {
    for (; from != to && *from < value; ++from) {}
    return from;
}
template <class I, class T> BLUEFIN_DEVICE I upper_bound(const bluefin_policy&, I from, I to, const T& value) {
    for (; from != to && !(value < *from); ++from) {}
    return from;
}

template <class T> class device_ptr;
template <class T> class device_reference;
template <class T> class device_malloc_allocator {
public:
    using value_type = T;
    using pointer = device_ptr<T>;
    using const_pointer = device_ptr<const T>;
    using reference = device_reference<T>;
    using const_reference = device_reference<const T>;
    using size_type = size_t;
    using difference_type = long;
    template <class U> struct rebind { using other = device_malloc_allocator<U>; };
};
template <class T> class device_allocator : public device_malloc_allocator<T> {};
template <class T, class Allocator = void> class device_vector {};
template <class T, class Allocator = void> class host_vector {};
template <class T> BLUEFIN_BOTH T* raw_pointer_cast(T* pointer) { return pointer; }
template <class T> class device_reference {};
template <class T> class device_ptr {
public:
    using element_type = T;
    T* get() const;
};
namespace system {
namespace cuda {
namespace experimental {
template <class T> class pinned_allocator {
public:
    using value_type = T;
};
}  // namespace experimental
}  // namespace cuda
}  // namespace system
}  // namespace thrust
