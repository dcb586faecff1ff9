// The limits of one executor of kernel functions by name.
#pragma once

#include <cstddef>

#include "core/base/units.h"

namespace lambent::limits {

constexpr size_t kExecutorInstances = 1'000;
// Objects that an executor keeps open to bring them to the device once more.
constexpr size_t kExecutorHostObjects = 128;
constexpr Bytes kExecutorHostBytes = Bytes::gib(1);
// Memory of outputs that is made while their kernels run, all together.
constexpr Bytes kExecutorEarlyBytes = Bytes::mib(256);

}  // namespace lambent::limits
