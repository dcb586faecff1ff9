#include "core/base/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace lambent {
namespace {

constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;

}  // namespace

Result<OwnedFd> new_memory(Bytes size) {
  OwnedFd fd(memfd_create("lambent-object", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return error_from_errno("memfd_create", errno);
  if (ftruncate(fd.get(), static_cast<off_t>(size.count)) != 0) {
    return error_from_errno("make memory of " + to_string(size), errno);
  }
  return fd;
}

Result<void> seal(int memfd) {
  if (fcntl(memfd, F_ADD_SEALS, kSeals | F_SEAL_SEAL) == 0) return {};
  if (errno == EBUSY) {
    return Error{ErrorCode::kFailedPrecondition, "memory that is mapped for writing is not sealed"};
  }
  return error_from_errno("seal memory", errno);
}

Result<OwnedFd> sealed_memory(std::string_view bytes) {
  ASSIGN_OR_RETURN(OwnedFd fd, new_memory(Bytes(bytes.size())));
  RETURN_IF_ERROR(write_all(fd.get(), bytes));
  RETURN_IF_ERROR(seal(fd.get()));
  return fd;
}

Result<Bytes> check_sealed(int memfd) {
  const int seals = fcntl(memfd, F_GET_SEALS);
  if (seals < 0) {
    return Error{ErrorCode::kInvalidArgument, "the descriptor is not a memfd"};
  }
  if ((seals & kSeals) != kSeals) {
    return Error{ErrorCode::kInvalidArgument,
                 "the memfd is not sealed; it needs F_SEAL_WRITE, F_SEAL_SHRINK and F_SEAL_GROW"};
  }
  struct stat status {};
  if (fstat(memfd, &status) != 0) return error_from_errno("fstat", errno);
  return Bytes(static_cast<uint64_t>(status.st_size));
}

MappedMemory::MappedMemory(MappedMemory&& other) noexcept
    : address_(std::exchange(other.address_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedMemory& MappedMemory::operator=(MappedMemory&& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(size_, other.size_);
  return *this;
}

MappedMemory::~MappedMemory() {
  if (address_ != nullptr) munmap(address_, size_);
}

Result<MappedMemory> MappedMemory::map(int memfd, Bytes size) {
  MappedMemory mapped;
  if (size.count == 0) return mapped;
  // Not MAP_SHARED: older kernels refuse that for memory that is sealed against writing. What
  // is only read is shared all the same.
  void* address = mmap(nullptr, size.count, PROT_READ, MAP_PRIVATE, memfd, 0);
  if (address == MAP_FAILED) return error_from_errno("map " + to_string(size), errno);
  mapped.address_ = address;
  mapped.size_ = size.count;
  return mapped;
}

Result<std::string> read_memory(int memfd, Bytes offset, Bytes size) {
  std::string bytes(size.count, '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = pread(memfd, bytes.data() + done, bytes.size() - done,
                              static_cast<off_t>(offset.count + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error_from_errno("read memory", errno);
    if (got == 0) return Error{ErrorCode::kOutOfRange, "the memory is shorter"};
    done += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace lambent
