// threadIdx, blockIdx, blockDim, gridDim and the vector types on the host. State of the thread that
// runs a block; set by the launch loop (registration.h) and the barriers, read by kernels.
#pragma once

#include <cstdint>

namespace lambent::host {

// One component of an index. Its storage is an enumeration of its own, so that a kernel's stores
// through int* or unsigned* cannot alias it: indices stay in registers and loops vectorise.
class IndexComponent {
 public:
  constexpr IndexComponent() = default;
  constexpr IndexComponent(unsigned value) : word_(static_cast<Word>(value)) {}
  constexpr operator unsigned() const { return static_cast<unsigned>(word_); }

 private:
  enum class Word : unsigned {};
  Word word_{};
};

struct Index {
  IndexComponent x, y, z;
};

}  // namespace lambent::host

static constinit thread_local lambent::host::Index threadIdx;
static constinit thread_local lambent::host::Index blockIdx;
static constinit thread_local lambent::host::Index blockDim;
static constinit thread_local lambent::host::Index gridDim;
static constexpr int warpSize = 32;

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

#define LAMBENT_VECTOR_TYPES(type, name)                                         \
  struct alignas(2 * sizeof(type)) name##2 {                                     \
    type x, y;                                                                   \
  };                                                                             \
  struct name##3 {                                                               \
    type x, y, z;                                                                \
  };                                                                             \
  struct alignas(4 * sizeof(type) > 16 ? 16 : 4 * sizeof(type)) name##4 {        \
    type x, y, z, w;                                                             \
  };                                                                             \
  constexpr name##2 make_##name##2(type x, type y) { return {x, y}; }            \
  constexpr name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  constexpr name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
#define LAMBENT_UINT_TYPES                                                             \
  struct alignas(8) uint2 {                                                            \
    unsigned x, y;                                                                     \
  };                                                                                   \
  struct alignas(16) uint4 {                                                           \
    unsigned x, y, z, w;                                                               \
  };                                                                                   \
  constexpr uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }                \
  constexpr uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; } \
  constexpr uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {         \
    return {x, y, z, w};                                                               \
  }
LAMBENT_VECTOR_TYPES(int, int)
LAMBENT_VECTOR_TYPES(float, float)
LAMBENT_VECTOR_TYPES(double, double)
LAMBENT_UINT_TYPES
#undef LAMBENT_VECTOR_TYPES
#undef LAMBENT_UINT_TYPES
