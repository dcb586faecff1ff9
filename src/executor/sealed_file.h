// Sealed files: memory that is handed to another process and can be changed by nobody any more.
// Functions over descriptors; any thread.
#pragma once

#include <string_view>

#include "base/fd.h"
#include "base/result.h"
#include "base/units.h"

namespace lambent::executor {

// A file in memory of this size, to be written and then sealed. RESOURCE_EXHAUSTED without memory.
Result<OwnedFd> make_memory_file(const char* name, Bytes size);
// Nobody can write to it, cut it or make it longer from now on.
Result<void> seal(int fd);
Result<OwnedFd> make_sealed_file(const char* name, std::string_view content);

// INVALID_ARGUMENT unless the file has at least this size and can be neither written nor cut.
Result<void> check_sealed(int fd, Bytes size);

// Reads or writes all of it; DATA_LOSS if the file is shorter.
Result<void> read_fully(int fd, uint64_t offset, void* to, size_t size);
Result<void> write_fully(int fd, uint64_t offset, const void* from, size_t size);

}  // namespace lambent::executor
