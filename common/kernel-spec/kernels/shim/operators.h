// What CUDA's samples share for vectors: operators by element, and functions of them. HIP's vectors have the operators without it.
// What the samples' own header lacks is not here either, as files have it of their own: a number minus a float4, quotients of whole
// numbers, uint made of float, int3 made of int4.
#pragma once

#include "bluefin/gpu.h"

#if !defined(EXIT_WAIVED)
#define EXIT_WAIVED 2
#endif

#if !defined(BLUEFIN_BOTH)
#define BLUEFIN_BOTH static __host__ __device__ __forceinline__
#endif

// One statement for each element, by how many there are.
#define BLUEFIN_OF_2(each) each(x) each(y)
#define BLUEFIN_OF_3(each) BLUEFIN_OF_2(each) each(z)
#define BLUEFIN_OF_4(each) BLUEFIN_OF_3(each) each(w)

#define BLUEFIN_TO_VECTOR(m) to.m = a.m;
#define BLUEFIN_TO_NUMBER(m) to.m = a;
#define BLUEFIN_VECTOR(V, T, N)                                                                                     \
    BLUEFIN_BOTH V bluefin_filled(V to, T a) {                                                                      \
        BLUEFIN_OF_##N(BLUEFIN_TO_NUMBER) return to;                                                                \
    }                                                                                                               \
    BLUEFIN_BOTH V make_##V(T a) { return bluefin_filled(V(), a); }
#define BLUEFIN_MAKERS_OF(T, Element)                                                                               \
    BLUEFIN_VECTOR(T##2, Element, 2)                                                                                \
    BLUEFIN_VECTOR(T##3, Element, 3)                                                                                \
    BLUEFIN_VECTOR(T##4, Element, 4)                                                                                \
    BLUEFIN_BOTH T##2 make_##T##2(T##3 a) { return make_##T##2(a.x, a.y); }                                         \
    BLUEFIN_BOTH T##3 make_##T##3(T##2 a) { return make_##T##3(a.x, a.y, 0); }                                      \
    BLUEFIN_BOTH T##3 make_##T##3(T##2 a, Element z) { return make_##T##3(a.x, a.y, z); }                           \
    BLUEFIN_BOTH T##4 make_##T##4(T##3 a) { return make_##T##4(a.x, a.y, a.z, 0); }                                 \
    BLUEFIN_BOTH T##4 make_##T##4(T##3 a, Element w) { return make_##T##4(a.x, a.y, a.z, w); }
BLUEFIN_MAKERS_OF(float, float)
BLUEFIN_MAKERS_OF(int, int)
BLUEFIN_MAKERS_OF(uint, unsigned)
BLUEFIN_BOTH float3 make_float3(float4 a) { return make_float3(a.x, a.y, a.z); }
BLUEFIN_BOTH uint3 make_uint3(uint4 a) { return make_uint3(a.x, a.y, a.z); }

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
    BLUEFIN_BOTH V operator op(V a, T b) { return a op bluefin_filled(a, b); }
#define BLUEFIN_OF_NUMBER(V, T, op) \
    BLUEFIN_BOTH V operator op(T a, V b) { return bluefin_filled(b, a) op b; }
#define BLUEFIN_OPERATORS(V, T, N)                \
    BLUEFIN_BY_ELEMENT(V, T, N, +, BLUEFIN_PLUS)  \
    BLUEFIN_BY_ELEMENT(V, T, N, -, BLUEFIN_MINUS) \
    BLUEFIN_BY_ELEMENT(V, T, N, *, BLUEFIN_TIMES) \
    BLUEFIN_OF_NUMBER(V, T, +)                    \
    BLUEFIN_OF_NUMBER(V, T, *)
BLUEFIN_OPERATORS(float2, float, 2)
BLUEFIN_OPERATORS(float3, float, 3)
BLUEFIN_OPERATORS(float4, float, 4)
BLUEFIN_OPERATORS(int2, int, 2)
BLUEFIN_OPERATORS(int3, int, 3)
BLUEFIN_OPERATORS(int4, int, 4)
BLUEFIN_OPERATORS(uint2, unsigned, 2)
BLUEFIN_OPERATORS(uint3, unsigned, 3)
BLUEFIN_OPERATORS(uint4, unsigned, 4)
BLUEFIN_OF_NUMBER(float2, float, -)
BLUEFIN_OF_NUMBER(float3, float, -)
BLUEFIN_OF_NUMBER(int2, int, -)
BLUEFIN_OF_NUMBER(int3, int, -)
BLUEFIN_OF_NUMBER(int4, int, -)
BLUEFIN_OF_NUMBER(uint2, unsigned, -)
BLUEFIN_OF_NUMBER(uint3, unsigned, -)
BLUEFIN_OF_NUMBER(uint4, unsigned, -)
#define BLUEFIN_QUOTIENTS(N)                                \
    BLUEFIN_BY_ELEMENT(float##N, float, N, /, BLUEFIN_OVER) \
    BLUEFIN_OF_NUMBER(float##N, float, /)
BLUEFIN_QUOTIENTS(2)
BLUEFIN_QUOTIENTS(3)
BLUEFIN_QUOTIENTS(4)

// The samples' own is of a variable alone. That of others, which compilers for Windows take as well, is a template: a file's own goes before.
#define BLUEFIN_NEGATIVE(m) to.m = -a.m;
#define BLUEFIN_NEGATED_AS(head, V, N, A)           \
    head BLUEFIN_BOTH V operator-(A& a) {           \
        V to;                                       \
        BLUEFIN_OF_##N(BLUEFIN_NEGATIVE) return to; \
    }
#define BLUEFIN_NEGATED(V, N)     \
    BLUEFIN_NEGATED_AS(, V, N, V) \
    BLUEFIN_NEGATED_AS(template <int = 0>, V, N, const V)
BLUEFIN_NEGATED(float2, 2)
BLUEFIN_NEGATED(float3, 3)
BLUEFIN_NEGATED(float4, 4)
BLUEFIN_NEGATED(int2, 2)
BLUEFIN_NEGATED(int3, 3)
BLUEFIN_NEGATED(int4, 4)
#endif

#define BLUEFIN_CONVERTED(To, From, N)                                                                              \
    BLUEFIN_BOTH To make_##To(From a) {                                                                             \
        To to;                                                                                                      \
        BLUEFIN_OF_##N(BLUEFIN_TO_VECTOR) return to;                                                                \
    }
#define BLUEFIN_CONVERTED_FROM(To, From) \
    BLUEFIN_CONVERTED(To##2, From##2, 2) \
    BLUEFIN_CONVERTED(To##3, From##3, 3) \
    BLUEFIN_CONVERTED(To##4, From##4, 4)
BLUEFIN_CONVERTED_FROM(float, int)
BLUEFIN_CONVERTED_FROM(float, uint)
BLUEFIN_CONVERTED_FROM(int, float)
BLUEFIN_CONVERTED_FROM(int, uint)
BLUEFIN_CONVERTED_FROM(uint, int)

// Of a number that is none and another, the other, as each function of one has it.
BLUEFIN_BOTH float bluefin_lesser(float a, float b) { return fminf(a, b); }
BLUEFIN_BOTH float bluefin_greater(float a, float b) { return fmaxf(a, b); }
BLUEFIN_BOTH int bluefin_lesser(int a, int b) { return b < a ? b : a; }
BLUEFIN_BOTH int bluefin_greater(int a, int b) { return a < b ? b : a; }
BLUEFIN_BOTH unsigned bluefin_lesser(unsigned a, unsigned b) { return b < a ? b : a; }
BLUEFIN_BOTH unsigned bluefin_greater(unsigned a, unsigned b) { return a < b ? b : a; }

#define BLUEFIN_LESSER(m) a.m = bluefin_lesser(a.m, b.m);
#define BLUEFIN_GREATER(m) a.m = bluefin_greater(a.m, b.m);
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
    BLUEFIN_BOTH V clamp(V a, T from, T to) { return clamp(a, make_##V(from), make_##V(to)); }                      \
    BLUEFIN_BOTH T dot(V a, V b) {                                                                                  \
        T sum = 0;                                                                                                  \
        BLUEFIN_OF_##N(BLUEFIN_ADDED) return sum;                                                                   \
    }
#define BLUEFIN_FUNCTIONS(V, T, lesser, greater)                                                                    \
    BLUEFIN_BOTH T clamp(T a, T from, T to) { return bluefin_greater(from, bluefin_lesser(a, to)); }                \
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
