// What libraries of products bring along for their operands: the types of 16 bits, and complex numbers.
#pragma once

#include "bluefin/libraries.h"
#include "bluefin/complex.h"
#if __clang_major__ >= 19
#include "bluefin/bfloat.h"
#else
#include "bluefin/half.h"
#endif
