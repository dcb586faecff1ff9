// Whole reads and writes of a part of a file, memfds among them. Functions over descriptors; any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/result.h"

namespace lambent::executor {

// All of it; DATA_LOSS if the file is shorter.
Result<void> read_fully(int fd, uint64_t offset, void* to, size_t size);
// RESOURCE_EXHAUSTED if there is no memory left for it.
Result<void> write_fully(int fd, uint64_t offset, const void* from, size_t size);

}  // namespace lambent::executor
