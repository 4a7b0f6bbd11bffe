// The words of a HIP or CUDA file that stand for the GPU, by compiler builtins alone, so that clang compiles such a file with
// neither ROCm nor CUDA installed. It is included before all else, the headers of the C++ library above all: device overloads
// of mathematical functions have to be declared before the library's own, which would be taken for both sides otherwise.
// BLUEFIN_CUDA is 1 for files in CUDA's dialect and 0 for those in HIP's.
#pragma once

#if !defined(BLUEFIN_CUDA)
#define BLUEFIN_CUDA 0
#endif

#if defined(__NVCC__)
#include "bluefin/nvcc.h"
#include "bluefin/ptx.h"
#else
#include "bluefin/words.h"
#include "bluefin/vectors.h"
#include "bluefin/indices.h"
#include "bluefin/lanes.h"
#include "bluefin/integers.h"
#include "bluefin/atomics.h"
#include "bluefin/math.h"
#include "bluefin/directed.h"
#if BLUEFIN_CUDA
#include "bluefin/simd.h"
#endif
#include "bluefin/runtime.h"
#include "bluefin/function.h"
#include "bluefin/ptx.h"
#if __has_include(<cmath>)
// Special functions of hosts (Bessel's, Legendre's), which a GPU does not have, are a fifth of the time that a small kernel compiles.
// What <cmath> includes for them is included all the same: files use it (`std::min`) with nothing of their own.
#define _GLIBCXX_BITS_SPECFUN_H 1
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <utility>
#if __has_include(<bits/stl_algobase.h>)
#include <bits/stl_algobase.h>
#endif
#endif
#if BLUEFIN_CUDA && defined(__AMDGCN__)
// PTX that has no words beside it (see bluefin/ptx.h) means nothing to an AMD GPU, and may stand in functions that a kernel has no use for. One that comes to it traps, and the trap's
// number (see bluefin-amd's `Fault::Trap`) and line say so. What is written `__asm__(...)`, without `volatile`, stays as it is: the C library's
// headers name functions so. `volatile` before a parenthesis is taken for such a statement: `float volatile (&s)[8]` does not compile.
#define asm(...) __asm__("s_trap 120")
#define volatile(...) ("s_trap 120")
#define __volatile__(...) ("s_trap 120")
#endif
#endif
