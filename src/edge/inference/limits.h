// The limits of requests to models by name.
#pragma once

#include "core/base/units.h"

namespace lambent::limits {

// Of requests to models that kernels serve, from when they are decompressed to their answers.
constexpr Bytes kDecompressedBodies = Bytes::mib(512);

}  // namespace lambent::limits
