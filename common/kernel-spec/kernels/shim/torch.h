// What PyTorch's headers bring along for kernels: its names of the types of 16 bits, and marks of functions.
#pragma once

#include "bluefin/operands.h"

namespace c10 {
using Half = __half;
#if __clang_major__ >= 19
using BFloat16 = bluefin_bfloat;
#endif
}  // namespace c10
namespace at {
using namespace c10;
}
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
