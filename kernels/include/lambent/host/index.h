// threadIdx, blockIdx, blockDim and gridDim on the host. State of the thread that
// runs a block; set by the launch loop (registration.h) and the barriers, read by kernels.
#pragma once

#include <cstdint>

#include "lambent/host/vectors.h"

namespace lambent::host {

// One component of an index. Its storage is an enumeration of its own, so that a kernel's stores
// through int* or unsigned* cannot alias it: indices stay in registers and loops vectorise. Nothing
// becomes one unasked: `i == 0 ? blockIdx.x : i` would be ambiguous, which goes both ways.
class IndexComponent {
 public:
  constexpr IndexComponent() = default;
  explicit constexpr IndexComponent(unsigned value) : word_(static_cast<Word>(value)) {}
  constexpr IndexComponent& operator=(unsigned value) {
    word_ = static_cast<Word>(value);
    return *this;
  }
  constexpr operator unsigned() const { return static_cast<unsigned>(word_); }

 private:
  enum class Word : unsigned {};
  Word word_{};
};

struct Index {
  constexpr Index() = default;
  constexpr Index(unsigned x_, unsigned y_, unsigned z_) : x(x_), y(y_), z(z_) {}

  IndexComponent x, y, z;

  operator uint3() const { return {x, y, z}; }
  operator dim3() const { return {x, y, z}; }
};

}  // namespace lambent::host

static constinit thread_local lambent::host::Index threadIdx;
static constinit thread_local lambent::host::Index blockIdx;
static constinit thread_local lambent::host::Index blockDim;
static constinit thread_local lambent::host::Index gridDim;
static constexpr int warpSize = 32;
