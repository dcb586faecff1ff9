#include "gpu/forward_ring/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace lambent::forward_ring {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

int SharedMemory::create() {
  const int fd = memfd_create("lambent-forward", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -1;
  if (ftruncate(fd, sizeof(SharedPages)) == 0 && fcntl(fd, F_ADD_SEALS, kSeals) == 0 && map(fd)) {
    return fd;
  }
  const int why = errno;
  close(fd);
  errno = why;
  return -1;
}

bool SharedMemory::map(int fd) {
  unmap();
  struct stat status = {};
  if (fstat(fd, &status) != 0 || status.st_size != static_cast<off_t>(sizeof(SharedPages))) {
    return false;
  }
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return false;
  void* address = mmap(nullptr, sizeof(SharedPages), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return false;
  madvise(address, sizeof(SharedPages), MADV_DONTFORK);
  pages_ = static_cast<SharedPages*>(address);
  return true;
}

void SharedMemory::unmap() {
  if (pages_ != nullptr) munmap(pages_, sizeof(SharedPages));
  pages_ = nullptr;
}

}  // namespace lambent::forward_ring
