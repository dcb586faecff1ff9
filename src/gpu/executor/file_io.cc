#include "gpu/executor/file_io.h"

#include <unistd.h>

#include <cerrno>

namespace lambent::executor {

Result<void> read_fully(int fd, uint64_t offset, void* to, size_t size) {
  char* next = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t got = pread(fd, next, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error_from_errno("pread", errno);
    if (got == 0) return Error{ErrorCode::kDataLoss, "a file is shorter than it was"};
    next += got;
    offset += static_cast<uint64_t>(got);
    size -= static_cast<size_t>(got);
  }
  return {};
}

Result<void> write_fully(int fd, uint64_t offset, const void* from, size_t size) {
  const char* next = static_cast<const char*>(from);
  while (size > 0) {
    const ssize_t put = pwrite(fd, next, size, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && (errno == ENOSPC || errno == ENOMEM)) {
      return Error{ErrorCode::kResourceExhausted, "no host memory left for an output"};
    }
    if (put < 0) return error_from_errno("pwrite", errno);
    next += put;
    offset += static_cast<uint64_t>(put);
    size -= static_cast<size_t>(put);
  }
  return {};
}

}  // namespace lambent::executor
