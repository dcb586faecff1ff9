#include "emulated_cuda/host_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace lambent::emulated_cuda {

namespace {

#ifndef MADV_POPULATE_READ
constexpr int MADV_POPULATE_READ = 22;
constexpr int MADV_POPULATE_WRITE = 23;
#endif

// 0, or what the system says.
int populate(uintptr_t begin, size_t bytes, bool write) {
  void* first = reinterpret_cast<void*>(begin);
  while (madvise(first, bytes, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) != 0) {
    if (errno != EINTR && errno != EAGAIN) return errno;
  }
  return 0;
}

bool system_can_tell() {
  static const bool can = [] {
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    char own = 0;
    return populate(reinterpret_cast<uintptr_t>(&own) / page * page, page, true) == 0;
  }();
  return can;
}

}  // namespace

bool host_pages_accessible(uintptr_t address, size_t bytes, bool write) {
  if (bytes == 0 || !system_can_tell()) return true;
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  uintptr_t begin = address / page * page, end;
  if (__builtin_add_overflow(address, bytes, &end)) return false;
  int error = populate(begin, end - begin, write);
  // EINVAL: the pages may not be accessed so. Anything else (no memory left, say) is not ours to
  // judge by.
  return error != EFAULT && error != EINVAL && error != ENOMEM;
}

}  // namespace lambent::emulated_cuda
