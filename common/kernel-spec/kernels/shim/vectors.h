// Vectors of two to four elements. In CUDA's dialect they are plain structures without operators; in HIP's they have operators
// by element, which a file's own operators go before.
#pragma once

#if BLUEFIN_CUDA
#define BLUEFIN_MAKERS(...)
#else
#define BLUEFIN_MAKERS(...) __VA_ARGS__
#endif
#define BLUEFIN_MAKER BLUEFIN_MEMBER_OF_BOTH constexpr

// Whether a type is one of them, of what, and how many.
template <class T> struct bluefin_vector {
    static constexpr int count = 0;
};

#define BLUEFIN_TRAIT(V, T, N)                     \
    template <> struct bluefin_vector<V> {         \
        static constexpr int count = N;            \
        using element = T;                         \
    };

// `name` with elements T; `two` and `four` are the alignments of those of two and of four.
#define BLUEFIN_VECTORS(name, T, two, four)                                                                        \
    struct name##1 {                                                                                               \
        T x;                                                                                                       \
        BLUEFIN_MAKERS(name##1() = default; BLUEFIN_MAKER name##1(T a) : x(a) {})                                  \
    };                                                                                                             \
    struct alignas(two) name##2 {                                                                                  \
        T x, y;                                                                                                    \
        BLUEFIN_MAKERS(name##2() = default; explicit BLUEFIN_MAKER name##2(T a) : x(a), y(a) {}                    \
                       BLUEFIN_MAKER name##2(T a, T b) : x(a), y(b) {})                                            \
    };                                                                                                             \
    struct name##3 {                                                                                               \
        T x, y, z;                                                                                                 \
        BLUEFIN_MAKERS(name##3() = default; explicit BLUEFIN_MAKER name##3(T a) : x(a), y(a), z(a) {}              \
                       BLUEFIN_MAKER name##3(T a, T b, T c) : x(a), y(b), z(c) {})                                 \
    };                                                                                                             \
    struct alignas(four) name##4 {                                                                                 \
        T x, y, z, w;                                                                                              \
        BLUEFIN_MAKERS(name##4() = default; explicit BLUEFIN_MAKER name##4(T a) : x(a), y(a), z(a), w(a) {}        \
                       BLUEFIN_MAKER name##4(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {})                      \
    };                                                                                                             \
    BLUEFIN_TRAIT(name##1, T, 1)                                                                                   \
    BLUEFIN_TRAIT(name##2, T, 2)                                                                                   \
    BLUEFIN_TRAIT(name##3, T, 3)                                                                                   \
    BLUEFIN_TRAIT(name##4, T, 4)                                                                                   \
    BLUEFIN_BOTH constexpr name##1 make_##name##1(T x) { return {x}; }                                             \
    BLUEFIN_BOTH constexpr name##2 make_##name##2(T x, T y) { return {x, y}; }                                     \
    BLUEFIN_BOTH constexpr name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                             \
    BLUEFIN_BOTH constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

BLUEFIN_VECTORS(char, signed char, 2, 4)
BLUEFIN_VECTORS(uchar, unsigned char, 2, 4)
BLUEFIN_VECTORS(short, short, 4, 8)
BLUEFIN_VECTORS(ushort, unsigned short, 4, 8)
BLUEFIN_VECTORS(int, int, 8, 16)
BLUEFIN_VECTORS(uint, unsigned, 8, 16)
BLUEFIN_VECTORS(long, long, 16, 16)
BLUEFIN_VECTORS(ulong, unsigned long, 16, 16)
BLUEFIN_VECTORS(longlong, long long, 16, 16)
BLUEFIN_VECTORS(ulonglong, unsigned long long, 16, 16)
BLUEFIN_VECTORS(float, float, 8, 16)
BLUEFIN_VECTORS(double, double, 16, 16)

struct dim3 {
    unsigned x, y, z;
    BLUEFIN_MAKER dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    BLUEFIN_MAKER dim3(uint3 of) : x(of.x), y(of.y), z(of.z) {}
    BLUEFIN_MAKER operator uint3() const { return make_uint3(x, y, z); }
};

#if !BLUEFIN_CUDA
template <bool> struct bluefin_if {};
template <> struct bluefin_if<true> {
    template <class T> using type = T;
};
// V, if that is a vector.
template <class V> using bluefin_of_vector = typename bluefin_if<(bluefin_vector<V>::count > 0)>::template type<V>;
template <class V> using bluefin_element = typename bluefin_vector<V>::element;

#define BLUEFIN_OPERATOR(op)                                                                                       \
    template <class V> BLUEFIN_BOTH constexpr bluefin_of_vector<V>& operator op##=(V& a, const V& b) {             \
        constexpr int count = bluefin_vector<V>::count;                                                            \
        a.x op##= b.x;                                                                                            \
        if constexpr (count > 1) a.y op##= b.y;                                                                   \
        if constexpr (count > 2) a.z op##= b.z;                                                                   \
        if constexpr (count > 3) a.w op##= b.w;                                                                   \
        return a;                                                                                                  \
    }                                                                                                              \
    template <class V> BLUEFIN_BOTH constexpr bluefin_of_vector<V> operator op(V a, const V& b) {                  \
        return a op##= b;                                                                                         \
    }                                                                                                              \
    template <class V> BLUEFIN_BOTH constexpr bluefin_of_vector<V>& operator op##=(V& a, bluefin_element<V> b) {   \
        return a op##= V(b);                                                                                      \
    }                                                                                                              \
    template <class V> BLUEFIN_BOTH constexpr bluefin_of_vector<V> operator op(V a, bluefin_element<V> b) {        \
        return a op##= V(b);                                                                                      \
    }                                                                                                              \
    template <class V> BLUEFIN_BOTH constexpr bluefin_of_vector<V> operator op(bluefin_element<V> a, const V& b) { \
        V c(a);                                                                                                    \
        return c op##= b;                                                                                         \
    }
BLUEFIN_OPERATOR(+)
BLUEFIN_OPERATOR(-)
BLUEFIN_OPERATOR(*)
BLUEFIN_OPERATOR(/)
// Of whole numbers.
BLUEFIN_OPERATOR(%)
BLUEFIN_OPERATOR(&)
BLUEFIN_OPERATOR(|)
BLUEFIN_OPERATOR(^)
BLUEFIN_OPERATOR(<<)
BLUEFIN_OPERATOR(>>)
template <class V> BLUEFIN_BOTH constexpr bluefin_of_vector<V> operator~(V a) { return a ^ V(~bluefin_element<V>(0)); }
template <class V> BLUEFIN_BOTH constexpr bluefin_of_vector<V>& operator++(V& a) { return a += V(1); }
template <class V> BLUEFIN_BOTH constexpr bluefin_of_vector<V>& operator--(V& a) { return a -= V(1); }
template <class V> BLUEFIN_BOTH constexpr bluefin_of_vector<V> operator++(V& a, int) {
    const V before = a;
    a += V(1);
    return before;
}
template <class V> BLUEFIN_BOTH constexpr bluefin_of_vector<V> operator--(V& a, int) {
    const V before = a;
    a -= V(1);
    return before;
}
template <class V> BLUEFIN_BOTH constexpr bluefin_of_vector<V> operator-(V a) { return V(0) - a; }
template <class V> BLUEFIN_BOTH constexpr typename bluefin_if<(bluefin_vector<V>::count > 0)>::template type<bool>
operator==(const V& a, const V& b) {
    constexpr int count = bluefin_vector<V>::count;
    bool same = a.x == b.x;
    if constexpr (count > 1) same = same && a.y == b.y;
    if constexpr (count > 2) same = same && a.z == b.z;
    if constexpr (count > 3) same = same && a.w == b.w;
    return same;
}
template <class V> BLUEFIN_BOTH constexpr typename bluefin_if<(bluefin_vector<V>::count > 0)>::template type<bool>
operator!=(const V& a, const V& b) {
    return !(a == b);
}
#endif
