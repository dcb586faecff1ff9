#include "executor/sealed_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace lambent::executor {

Result<OwnedFd> make_memory_file(const char* name, Bytes size) {
  OwnedFd file(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return error_from_errno("memfd_create", errno);
  if (ftruncate(file.get(), static_cast<off_t>(size.count)) != 0) {
    return error_from_errno("a file in memory of " + to_string(size), errno);
  }
  return file;
}

Result<void> seal(int fd) {
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return error_from_errno("seal a file in memory", errno);
  }
  return {};
}

Result<OwnedFd> make_sealed_file(const char* name, std::string_view content) {
  ASSIGN_OR_RETURN(OwnedFd file, make_memory_file(name, Bytes(content.size())));
  RETURN_IF_ERROR(write_fully(file.get(), 0, content.data(), content.size()));
  RETURN_IF_ERROR(seal(file.get()));
  return file;
}

Result<void> check_sealed(int fd, Bytes size) {
  const int seals = fcntl(fd, F_GET_SEALS);
  constexpr int kNeeded = F_SEAL_WRITE | F_SEAL_SHRINK;
  if (seals < 0 || (seals & kNeeded) != kNeeded) {
    return Error{ErrorCode::kInvalidArgument, "an object's file is not sealed"};
  }
  struct stat status {};
  if (fstat(fd, &status) != 0) return error_from_errno("fstat", errno);
  if (static_cast<uint64_t>(status.st_size) < size.count) {
    return Error{ErrorCode::kInvalidArgument,
                 "an object's file has " + std::to_string(status.st_size) + " bytes instead of " +
                     std::to_string(size.count)};
  }
  return {};
}

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
