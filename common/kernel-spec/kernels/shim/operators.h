// What CUDA's samples share for vectors: operators by element, and functions of them. HIP's vectors have the operators without it.
#pragma once

#include "bluefin/gpu.h"

#if !defined(BLUEFIN_BOTH)
#define BLUEFIN_BOTH static __host__ __device__ __forceinline__
#endif

// One statement for each element, by how many there are.
#define BLUEFIN_OF_2(each) each(x) each(y)
#define BLUEFIN_OF_3(each) BLUEFIN_OF_2(each) each(z)
#define BLUEFIN_OF_4(each) BLUEFIN_OF_3(each) each(w)

#define BLUEFIN_TO_VECTOR(m) to.m = a.m;
#define BLUEFIN_TO_NUMBER(m) to.m = a;
#if BLUEFIN_CUDA
#define BLUEFIN_PLUS(m) a.m += b.m;
#define BLUEFIN_MINUS(m) a.m -= b.m;
#define BLUEFIN_TIMES(m) a.m *= b.m;
#define BLUEFIN_OVER(m) a.m /= b.m;
#define BLUEFIN_BY_ELEMENT(V, T, N, op, each)                                                                       \
    BLUEFIN_BOTH void operator op##=(V& a, V b) { BLUEFIN_OF_##N(each) }                                            \
    BLUEFIN_BOTH void operator op##=(V& a, T b) { a op##= bluefin_filled(a, b); }                                   \
    BLUEFIN_BOTH V operator op(V a, V b) {                                                                          \
        a op##= b;                                                                                                  \
        return a;                                                                                                   \
    }                                                                                                               \
    BLUEFIN_BOTH V operator op(V a, T b) { return a op bluefin_filled(a, b); }                                      \
    BLUEFIN_BOTH V operator op(T a, V b) { return bluefin_filled(b, a) op b; }
#define BLUEFIN_ALL_BY_ELEMENT(V, T, N)             \
    BLUEFIN_BY_ELEMENT(V, T, N, +, BLUEFIN_PLUS)    \
    BLUEFIN_BY_ELEMENT(V, T, N, -, BLUEFIN_MINUS)   \
    BLUEFIN_BY_ELEMENT(V, T, N, *, BLUEFIN_TIMES)   \
    BLUEFIN_BY_ELEMENT(V, T, N, /, BLUEFIN_OVER)
#else
#define BLUEFIN_ALL_BY_ELEMENT(V, T, N)
#endif
#define BLUEFIN_VECTOR(V, T, N)                                                                                     \
    BLUEFIN_BOTH V bluefin_filled(V to, T a) {                                                                      \
        BLUEFIN_OF_##N(BLUEFIN_TO_NUMBER) return to;                                                                \
    }                                                                                                               \
    BLUEFIN_ALL_BY_ELEMENT(V, T, N)                                                                                 \
    BLUEFIN_BOTH V make_##V(T a) { return bluefin_filled(V(), a); }
#define BLUEFIN_OPERATORS(T, Element)                                                                               \
    BLUEFIN_VECTOR(T##2, Element, 2)                                                                                \
    BLUEFIN_VECTOR(T##3, Element, 3)                                                                                \
    BLUEFIN_VECTOR(T##4, Element, 4)                                                                                \
    BLUEFIN_BOTH T##2 make_##T##2(T##3 a) { return make_##T##2(a.x, a.y); }                                         \
    BLUEFIN_BOTH T##3 make_##T##3(T##2 a) { return make_##T##3(a.x, a.y, 0); }                                      \
    BLUEFIN_BOTH T##3 make_##T##3(T##2 a, Element z) { return make_##T##3(a.x, a.y, z); }                           \
    BLUEFIN_BOTH T##3 make_##T##3(T##4 a) { return make_##T##3(a.x, a.y, a.z); }                                    \
    BLUEFIN_BOTH T##4 make_##T##4(T##3 a) { return make_##T##4(a.x, a.y, a.z, 0); }                                 \
    BLUEFIN_BOTH T##4 make_##T##4(T##3 a, Element w) { return make_##T##4(a.x, a.y, a.z, w); }
BLUEFIN_OPERATORS(float, float)
BLUEFIN_OPERATORS(int, int)
BLUEFIN_OPERATORS(uint, unsigned)

#if BLUEFIN_CUDA
#define BLUEFIN_NEGATED(V) \
    BLUEFIN_BOTH V operator-(V a) { return make_##V(0) - a; }
BLUEFIN_NEGATED(int2)
BLUEFIN_NEGATED(int3)
BLUEFIN_NEGATED(int4)
// That of a zero is a negative zero.
#define BLUEFIN_NEGATIVE(m) a.m = -a.m;
#define BLUEFIN_NEGATED_FLOATS(N)                                                                                   \
    BLUEFIN_BOTH float##N operator-(float##N a) {                                                                   \
        BLUEFIN_OF_##N(BLUEFIN_NEGATIVE) return a;                                                                  \
    }
BLUEFIN_NEGATED_FLOATS(2)
BLUEFIN_NEGATED_FLOATS(3)
BLUEFIN_NEGATED_FLOATS(4)
#endif

#define BLUEFIN_CONVERTED(To, From, N)                                                                              \
    BLUEFIN_BOTH To make_##To(From a) {                                                                             \
        To to;                                                                                                      \
        BLUEFIN_OF_##N(BLUEFIN_TO_VECTOR) return to;                                                                \
    }
#define BLUEFIN_CONVERTED_BETWEEN(One, Other) \
    BLUEFIN_CONVERTED(One##2, Other##2, 2)    \
    BLUEFIN_CONVERTED(One##3, Other##3, 3)    \
    BLUEFIN_CONVERTED(One##4, Other##4, 4)    \
    BLUEFIN_CONVERTED(Other##2, One##2, 2)    \
    BLUEFIN_CONVERTED(Other##3, One##3, 3)    \
    BLUEFIN_CONVERTED(Other##4, One##4, 4)
BLUEFIN_CONVERTED_BETWEEN(float, int)
BLUEFIN_CONVERTED_BETWEEN(float, uint)
BLUEFIN_CONVERTED_BETWEEN(int, uint)

#define BLUEFIN_LESSER(m) a.m = a.m < b.m ? a.m : b.m;
#define BLUEFIN_GREATER(m) a.m = a.m < b.m ? b.m : a.m;
#define BLUEFIN_ABSOLUTE(m) a.m = a.m < 0 ? -a.m : a.m;
#define BLUEFIN_ADDED(m) sum += a.m * b.m;
#define BLUEFIN_FUNCTIONS_OF(V, T, N, lesser, greater)                                                              \
    BLUEFIN_BOTH V lesser(V a, V b) {                                                                               \
        BLUEFIN_OF_##N(BLUEFIN_LESSER) return a;                                                                    \
    }                                                                                                               \
    BLUEFIN_BOTH V greater(V a, V b) {                                                                              \
        BLUEFIN_OF_##N(BLUEFIN_GREATER) return a;                                                                   \
    }                                                                                                               \
    BLUEFIN_BOTH V clamp(V a, V from, V to) { return greater(from, lesser(a, to)); }                                \
    BLUEFIN_BOTH V clamp(V a, T from, T to) { return clamp(a, make_##V(from), make_##V(to)); }            \
    BLUEFIN_BOTH T dot(V a, V b) {                                                                                  \
        T sum = 0;                                                                                                  \
        BLUEFIN_OF_##N(BLUEFIN_ADDED) return sum;                                                                   \
    }
#define BLUEFIN_FUNCTIONS(V, T, lesser, greater)                                                                    \
    BLUEFIN_BOTH T clamp(T a, T from, T to) { return a < from ? from : a < to ? a : to; }                           \
    BLUEFIN_FUNCTIONS_OF(V##2, T, 2, lesser, greater)                                                               \
    BLUEFIN_FUNCTIONS_OF(V##3, T, 3, lesser, greater)                                                               \
    BLUEFIN_FUNCTIONS_OF(V##4, T, 4, lesser, greater)
BLUEFIN_FUNCTIONS(float, float, fminf, fmaxf)
BLUEFIN_FUNCTIONS(int, int, min, max)
BLUEFIN_FUNCTIONS(uint, unsigned, min, max)

#define BLUEFIN_EACH(name, V, N, each)                                                                              \
    BLUEFIN_BOTH V name(V a) {                                                                                      \
        BLUEFIN_OF_##N(each) return a;                                                                              \
    }
#define BLUEFIN_FLOOR(m) a.m = floorf(a.m);
#define BLUEFIN_FRACTION(m) a.m = a.m - floorf(a.m);
#define BLUEFIN_ABSOLUTE_FLOAT(m) a.m = fabsf(a.m);
#define BLUEFIN_REST(m) a.m = fmodf(a.m, b.m);
#define BLUEFIN_BETWEEN(m) a.m = a.m + t * (b.m - a.m);
#define BLUEFIN_SCALED(m) a.m *= scale;
#define BLUEFIN_STEP(m) x.m = smoothstep(a.m, b.m, x.m);
#define BLUEFIN_MIRRORED(m) a.m = a.m - 2.0f * n.m * twice;
BLUEFIN_BOTH float lerp(float a, float b, float t) { return a + t * (b - a); }
BLUEFIN_BOTH float fracf(float a) { return a - floorf(a); }
BLUEFIN_BOTH float smoothstep(float a, float b, float x) {
    const float y = clamp((x - a) / (b - a), 0.0f, 1.0f);
    return y * y * (3.0f - 2.0f * y);
}
#define BLUEFIN_OF_FLOATS(N)                                                                                        \
    BLUEFIN_EACH(floorf, float##N, N, BLUEFIN_FLOOR)                                                                \
    BLUEFIN_EACH(fracf, float##N, N, BLUEFIN_FRACTION)                                                              \
    BLUEFIN_EACH(fabs, float##N, N, BLUEFIN_ABSOLUTE_FLOAT)                                                         \
    BLUEFIN_EACH(abs, int##N, N, BLUEFIN_ABSOLUTE)                                                                  \
    BLUEFIN_BOTH float##N fmodf(float##N a, float##N b) {                                                           \
        BLUEFIN_OF_##N(BLUEFIN_REST) return a;                                                                      \
    }                                                                                                               \
    BLUEFIN_BOTH float##N lerp(float##N a, float##N b, float t) {                                                   \
        BLUEFIN_OF_##N(BLUEFIN_BETWEEN) return a;                                                                   \
    }                                                                                                               \
    BLUEFIN_BOTH float length(float##N a) { return sqrtf(dot(a, a)); }                                              \
    BLUEFIN_BOTH float##N normalize(float##N a) {                                                                   \
        const float scale = rsqrtf(dot(a, a));                                                                      \
        BLUEFIN_OF_##N(BLUEFIN_SCALED) return a;                                                                    \
    }                                                                                                               \
    BLUEFIN_BOTH float##N smoothstep(float##N a, float##N b, float##N x) {                                          \
        BLUEFIN_OF_##N(BLUEFIN_STEP) return x;                                                                      \
    }
BLUEFIN_OF_FLOATS(2)
BLUEFIN_OF_FLOATS(3)
BLUEFIN_OF_FLOATS(4)
BLUEFIN_BOTH float3 reflect(float3 a, float3 n) {
    const float twice = dot(n, a);
    BLUEFIN_OF_3(BLUEFIN_MIRRORED) return a;
}
BLUEFIN_BOTH float3 cross(float3 a, float3 b) {
    return make_float3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}
