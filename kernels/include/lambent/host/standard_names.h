// Names that C++20 puts beside a program's own: nvcc compiles most programs as C++17, we need
// C++20. Included before every other header, by lambent-bundle alone, when it compiles a whole
// program.
#pragma once

// <math.h> brings std::lerp to everybody, and many programs have a lerp of their own.
#define lerp lambent_standard_lerp
#include <cmath>
// (after it)
#include <math.h>
#undef lerp

namespace std {
// As a template it is second to a program's own after `using namespace std`.
template <typename A, typename B, typename C>
constexpr auto lerp(A a, B b, C t) {
  return lambent_standard_lerp(a, b, t);
}
}  // namespace std
