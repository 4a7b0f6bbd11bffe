// Complex numbers of C++ libraries, and those of CUDA's and HIP's own headers, which are vectors of two.
#pragma once

#include "bluefin/gpu.h"

template <class T> struct alignas(2 * sizeof(T)) bluefin_complex {
    using value_type = T;
    T real_, imag_;
    BLUEFIN_MEMBER_OF_BOTH constexpr bluefin_complex(T real = T(), T imag = T()) : real_(real), imag_(imag) {}
    template <class U>
    BLUEFIN_MEMBER_OF_BOTH constexpr explicit(sizeof(U) > sizeof(T)) bluefin_complex(const bluefin_complex<U>& of)
        : real_((T)of.real_), imag_((T)of.imag_) {}
    BLUEFIN_MEMBER_OF_BOTH constexpr T real() const { return real_; }
    BLUEFIN_MEMBER_OF_BOTH constexpr T imag() const { return imag_; }
    BLUEFIN_MEMBER_OF_BOTH void real(T value) { real_ = value; }
    BLUEFIN_MEMBER_OF_BOTH void imag(T value) { imag_ = value; }
    BLUEFIN_MEMBER_OF_BOTH constexpr bluefin_complex operator-() const { return {-real_, -imag_}; }
    BLUEFIN_MEMBER_OF_BOTH constexpr bluefin_complex operator+() const { return *this; }
    BLUEFIN_MEMBER_OF_BOTH friend constexpr bluefin_complex operator+(bluefin_complex a, bluefin_complex b) {
        return {a.real_ + b.real_, a.imag_ + b.imag_};
    }
    BLUEFIN_MEMBER_OF_BOTH friend constexpr bluefin_complex operator-(bluefin_complex a, bluefin_complex b) {
        return {a.real_ - b.real_, a.imag_ - b.imag_};
    }
    BLUEFIN_MEMBER_OF_BOTH friend constexpr bluefin_complex operator*(bluefin_complex a, bluefin_complex b) {
        return {a.real_ * b.real_ - a.imag_ * b.imag_, a.real_ * b.imag_ + a.imag_ * b.real_};
    }
    BLUEFIN_MEMBER_OF_BOTH friend constexpr bluefin_complex operator/(bluefin_complex a, bluefin_complex b) {
        // By the larger part, so that no square is beyond the type.
        const bool by_real = (b.real_ < 0 ? -b.real_ : b.real_) >= (b.imag_ < 0 ? -b.imag_ : b.imag_);
        const T ratio = by_real ? b.imag_ / b.real_ : b.real_ / b.imag_;
        const T scale = by_real ? b.real_ + b.imag_ * ratio : b.real_ * ratio + b.imag_;
        return by_real ? bluefin_complex((a.real_ + a.imag_ * ratio) / scale, (a.imag_ - a.real_ * ratio) / scale)
                       : bluefin_complex((a.real_ * ratio + a.imag_) / scale, (a.imag_ * ratio - a.real_) / scale);
    }
    BLUEFIN_MEMBER_OF_BOTH friend constexpr bool operator==(bluefin_complex a, bluefin_complex b) {
        return a.real_ == b.real_ && a.imag_ == b.imag_;
    }
    BLUEFIN_MEMBER_OF_BOTH friend constexpr bool operator!=(bluefin_complex a, bluefin_complex b) { return !(a == b); }
    BLUEFIN_MEMBER_OF_BOTH bluefin_complex& operator+=(bluefin_complex b) { return *this = *this + b; }
    BLUEFIN_MEMBER_OF_BOTH bluefin_complex& operator-=(bluefin_complex b) { return *this = *this - b; }
    BLUEFIN_MEMBER_OF_BOTH bluefin_complex& operator*=(bluefin_complex b) { return *this = *this * b; }
    BLUEFIN_MEMBER_OF_BOTH bluefin_complex& operator/=(bluefin_complex b) { return *this = *this / b; }
};
template <class T> BLUEFIN_BOTH constexpr bluefin_complex<T> conj(const bluefin_complex<T>& a) { return {a.real_, -a.imag_}; }
template <class T> BLUEFIN_BOTH constexpr T norm(const bluefin_complex<T>& a) { return a.real_ * a.real_ + a.imag_ * a.imag_; }
template <class T> BLUEFIN_BOTH constexpr T real(const bluefin_complex<T>& a) { return a.real_; }
template <class T> BLUEFIN_BOTH constexpr T imag(const bluefin_complex<T>& a) { return a.imag_; }
template <class T> BLUEFIN_DEVICE T abs(const bluefin_complex<T>& a) { return (T)hypot((double)a.real_, (double)a.imag_); }
template <class T> BLUEFIN_DEVICE T arg(const bluefin_complex<T>& a) { return (T)atan2((double)a.imag_, (double)a.real_); }
template <class T> BLUEFIN_DEVICE bluefin_complex<T> polar(T size, T angle = T()) {
    return {size * (T)cos((double)angle), size * (T)sin((double)angle)};
}
template <class T> BLUEFIN_DEVICE bluefin_complex<T> exp(const bluefin_complex<T>& a) { return polar<T>((T)exp((double)a.real_), a.imag_); }
template <class T> BLUEFIN_DEVICE bluefin_complex<T> log(const bluefin_complex<T>& a) { return {(T)log((double)abs(a)), arg(a)}; }
template <class T> BLUEFIN_DEVICE bluefin_complex<T> sqrt(const bluefin_complex<T>& a) {
    return polar<T>((T)sqrt((double)abs(a)), arg(a) / 2);
}
namespace bluefin_complex_names {
template <class T> using complex = bluefin_complex<T>;
using ::abs;
using ::arg;
using ::conj;
using ::exp;
using ::imag;
using ::log;
using ::norm;
using ::polar;
using ::real;
using ::sqrt;
}  // namespace bluefin_complex_names
namespace thrust {
using namespace bluefin_complex_names;
}
namespace c10 {
template <class T> using complex = bluefin_complex<T>;
}
namespace cuda {
namespace std {
using namespace bluefin_complex_names;
}
}  // namespace cuda

// `make` is the name of a pair, `api` begins those of its functions, `f` ends those of floats.
#define BLUEFIN_COMPLEX(name, T, pair, api, f)                                                                       \
    BLUEFIN_BOTH pair make_##name(T x, T y) { return make_##pair(x, y); }                                            \
    BLUEFIN_BOTH T api##Creal##f(pair a) { return a.x; }                                                             \
    BLUEFIN_BOTH T api##Cimag##f(pair a) { return a.y; }                                                             \
    BLUEFIN_BOTH pair api##Conj##f(pair a) { return make_##pair(a.x, -a.y); }                                        \
    BLUEFIN_BOTH pair api##Cadd##f(pair a, pair b) { return make_##pair(a.x + b.x, a.y + b.y); }                     \
    BLUEFIN_BOTH pair api##Csub##f(pair a, pair b) { return make_##pair(a.x - b.x, a.y - b.y); }                     \
    BLUEFIN_BOTH pair api##Cmul##f(pair a, pair b) { return make_##pair(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); } \
    BLUEFIN_BOTH pair api##Cdiv##f(pair a, pair b) {                                                                 \
        const bluefin_complex<T> found = bluefin_complex<T>(a.x, a.y) / bluefin_complex<T>(b.x, b.y);                \
        return make_##pair(found.real_, found.imag_);                                                                \
    }                                                                                                                \
    BLUEFIN_BOTH pair api##Cfma##f(pair a, pair b, pair c) { return api##Cadd##f(api##Cmul##f(a, b), c); }           \
    BLUEFIN_DEVICE T api##Cabs##f(pair a) { return (T)hypot((double)a.x, (double)a.y); }
#define BLUEFIN_COMPLEXES(api)                                                                                       \
    using api##FloatComplex = float2;                                                                                \
    using api##Complex = float2;                                                                                     \
    using api##DoubleComplex = double2;                                                                              \
    BLUEFIN_COMPLEX(api##FloatComplex, float, float2, api, f)                                                        \
    BLUEFIN_COMPLEX(api##DoubleComplex, double, double2, api, )                                                      \
    BLUEFIN_BOTH float2 make_##api##Complex(float x, float y) { return make_float2(x, y); }                          \
    BLUEFIN_BOTH double2 api##ComplexFloatToDouble(float2 a) { return make_double2(a.x, a.y); }                      \
    BLUEFIN_BOTH float2 api##ComplexDoubleToFloat(double2 a) { return make_float2((float)a.x, (float)a.y); }
#if BLUEFIN_CUDA
BLUEFIN_COMPLEXES(cu)
#else
BLUEFIN_COMPLEXES(hip)
#endif
#undef BLUEFIN_COMPLEXES
#undef BLUEFIN_COMPLEX
