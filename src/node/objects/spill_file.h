// Spill files: objects that left memory, and their way back. Plain bytes; the checksum stays with
// the writer of the file. Blocking; used on the disk's thread.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/base/units.h"

namespace lambent::objects {

// Writes all of a memfd into a new file and returns the checksum of what it wrote. On an error
// nothing is left behind.
Result<uint32_t> write_spill_file(const std::string& path, int memfd, Bytes size);

// A sealed memfd with the file's bytes. DATA_LOSS if they are not those that were written;
// RESOURCE_EXHAUSTED if there is no memory for them.
Result<OwnedFd> read_spill_file(const std::string& path, Bytes size, uint32_t checksum);

}  // namespace lambent::objects
