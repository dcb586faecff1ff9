// Opens files to read, and tells whether one was written to meanwhile. Used by readers that go
// over a file more than once, each on its own thread.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/fd.h"

namespace lambent {

// Two versions of one file are the same if it was not written to in between.
struct FileVersion {
  int64_t size_bytes = 0;
  int64_t modified_ns = 0;

  bool operator==(const FileVersion&) const = default;
};

struct FileToRead {
  OwnedFd fd;
  FileVersion version;
  bool is_regular = false;  // not a pipe or a device
};

// NOT_FOUND if there is none, INVALID_ARGUMENT if it is a folder.
Result<FileToRead> open_to_read(const std::string& path);
// Of an open file, as it is now.
Result<FileVersion> version_of(int fd);

}  // namespace lambent
