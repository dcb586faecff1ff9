// What copies and fills within the device are to the driver, once they are checked; used for calls
// and for the nodes of a graph that are queued one by one.
#pragma once

#include <cstdint>
#include <span>

#include "gpu/cuda/driver.h"

namespace lambent::forward_server {

// to, to pitch, from, from pitch, width, height.
CUresult queue_copy(const cuda::Driver& driver, CUstream stream, std::span<const uint64_t> a);
// to, pitch, value, bytes of an element, width in elements, height.
CUresult queue_fill(const cuda::Driver& driver, CUstream stream, std::span<const uint64_t> a);

}  // namespace lambent::forward_server
