#include "node/sandbox/memory_meter.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string>

namespace lambent::sandbox {

Result<MemoryMeter> MemoryMeter::make() {
  OwnedFd file(memfd_create("lambent-memory-meter", MFD_CLOEXEC));
  if (!file.valid()) return error_from_errno("memfd_create", errno);
  return MemoryMeter(std::move(file));
}

Bytes MemoryMeter::peak() const {
  char text[32];
  const ssize_t got = file_.valid() ? pread(file_.get(), text, sizeof(text), 0) : 0;
  uint64_t bytes = 0;
  if (got > 0) std::from_chars(text, text + got, bytes);
  return Bytes(bytes);
}

void MemoryMeter::reset() {
  if (!file_.valid()) return;
  // For a file in memory, so that no digit of a longer number is left; a cgroup's ignores it.
  (void)!ftruncate(file_.get(), 0);
  (void)!pwrite(file_.get(), "0", 1, 0);
}

void MemoryMeter::raise(Bytes now) {
  if (now <= peak()) return;
  const std::string text = std::to_string(now.count) + "\n";
  (void)!pwrite(file_.get(), text.data(), text.size(), 0);
}

}  // namespace lambent::sandbox
