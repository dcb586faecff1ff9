// own_file: files that only this user may have written, which hold code that is to be run. Any
// thread.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lambent::emulated_cuda {

// This user's, and no one else may write to it.
bool is_own(const struct stat& status);

// Whether others reach a file's folder: if not, its own mode says nothing.
enum class Reach { kAnyone, kOwner };

// The whole of an ordinary file of this user, which is no link and has at most so many bytes; its
// last use is now. Nothing if it is none.
std::optional<std::string> read_own_file(const std::string& path, uint64_t most_bytes, Reach reach);

}  // namespace lambent::emulated_cuda
