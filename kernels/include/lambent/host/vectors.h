// CUDA's vector types and dim3, with the sizes and alignments that kernels on a GPU see.
// Values; used by kernels and by the headers here.
#pragma once

#define LAMBENT_VECTOR_TYPES(type, name)                                         \
  struct name##1 {                                                               \
    type x;                                                                      \
  };                                                                             \
  struct alignas(2 * sizeof(type)) name##2 {                                     \
    type x, y;                                                                   \
  };                                                                             \
  struct name##3 {                                                               \
    type x, y, z;                                                                \
  };                                                                             \
  struct alignas(4 * sizeof(type) > 16 ? 16 : 4 * sizeof(type)) name##4 {        \
    type x, y, z, w;                                                             \
  };                                                                             \
  constexpr name##1 make_##name##1(type x) { return {x}; }                       \
  constexpr name##2 make_##name##2(type x, type y) { return {x, y}; }            \
  constexpr name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  constexpr name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
LAMBENT_VECTOR_TYPES(signed char, char)
LAMBENT_VECTOR_TYPES(unsigned char, uchar)
LAMBENT_VECTOR_TYPES(short, short)
LAMBENT_VECTOR_TYPES(unsigned short, ushort)
LAMBENT_VECTOR_TYPES(int, int)
LAMBENT_VECTOR_TYPES(unsigned, uint)
LAMBENT_VECTOR_TYPES(long, long)
LAMBENT_VECTOR_TYPES(unsigned long, ulong)
LAMBENT_VECTOR_TYPES(long long, longlong)
LAMBENT_VECTOR_TYPES(unsigned long long, ulonglong)
LAMBENT_VECTOR_TYPES(float, float)
LAMBENT_VECTOR_TYPES(double, double)
#undef LAMBENT_VECTOR_TYPES

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
