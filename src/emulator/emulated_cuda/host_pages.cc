#include "emulator/emulated_cuda/host_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace lambent::emulated_cuda {

namespace {

#ifndef MADV_POPULATE_READ
constexpr int MADV_POPULATE_READ = 22;
constexpr int MADV_POPULATE_WRITE = 23;
#endif

constexpr size_t kMostPagesAtOnce = 4096;

uintptr_t page_bytes() {
  static const auto bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// Brings one page in. 0, or what the system says: EINVAL where it may not be accessed so.
int populate(uintptr_t page, bool write) {
  void* first = reinterpret_cast<void*>(page);
  while (madvise(first, page_bytes(), write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) != 0) {
    if (errno != EINTR && errno != EAGAIN) return errno;
  }
  return 0;
}

// Far cheaper than to bring all of them in.
bool all_mapped(uintptr_t begin, uintptr_t end) {
  unsigned char resident[kMostPagesAtOnce];
  const uintptr_t step = kMostPagesAtOnce * page_bytes();
  for (; begin < end; begin += std::min(step, end - begin)) {
    while (mincore(reinterpret_cast<void*>(begin), std::min(step, end - begin), resident) != 0) {
      if (errno == ENOMEM) return false;
      if (errno != EAGAIN) return true;  // not ours to judge by
    }
  }
  return true;
}

bool system_can_tell() {
  static const bool can = [] {
    char own = 0;
    return populate(reinterpret_cast<uintptr_t>(&own) / page_bytes() * page_bytes(), true) == 0;
  }();
  return can;
}

}  // namespace

bool host_pages_accessible(uintptr_t address, size_t bytes, bool write) {
  if (bytes == 0 || !system_can_tell()) return true;
  uintptr_t end;
  if (__builtin_add_overflow(address, bytes, &end)) return false;
  const uintptr_t first = address / page_bytes() * page_bytes();
  const uintptr_t last = (end - 1) / page_bytes() * page_bytes();
  auto accessible = [write](uintptr_t page) {
    const int error = populate(page, write);
    return error != EFAULT && error != EINVAL && error != ENOMEM;
  };
  if (!accessible(first)) return false;
  return first == last || (all_mapped(first, end) && accessible(last));
}

}  // namespace lambent::emulated_cuda
