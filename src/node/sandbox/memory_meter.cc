#include "node/sandbox/memory_meter.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>

namespace lambent::sandbox {
namespace {

constexpr size_t kTextLength = 42;  // of two numbers

std::pair<Bytes, Bytes> read_numbers(const OwnedFd& file) {
  char text[64];
  const ssize_t got = file.valid() ? pread(file.get(), text, sizeof(text), 0) : 0;
  uint64_t first = 0;
  uint64_t second = 0;
  if (got <= 0) return {};
  const char* const end = text + got;
  const auto read = std::from_chars(text, end, first);
  if (read.ptr < end && *read.ptr == ' ') std::from_chars(read.ptr + 1, end, second);
  return {Bytes(first), Bytes(second)};
}

}  // namespace

Result<MemoryMeter> MemoryMeter::make() {
  OwnedFd file(memfd_create("lambent-memory-meter", MFD_CLOEXEC));
  if (!file.valid()) return error_from_errno("memfd_create", errno);
  return MemoryMeter(std::move(file));
}

Bytes MemoryMeter::peak() const { return read_numbers(file_).first; }

Bytes MemoryMeter::now() const {
  return usage_.valid() ? read_numbers(usage_).first : read_numbers(file_).second;
}

void MemoryMeter::reset() {
  if (!file_.valid()) return;
  if (usage_.valid()) {
    (void)!pwrite(file_.get(), "0", 1, 0);
  } else {
    write(Bytes(0), now());
  }
}

void MemoryMeter::raise(Bytes now) { write(std::max(peak(), now), now); }

// At once, so that a reader does not see half of it. Padded, so that no digit of longer numbers is
// left.
void MemoryMeter::write(Bytes peak, Bytes now) {
  std::string text = std::to_string(peak.count) + " " + std::to_string(now.count);
  text.resize(kTextLength, ' ');
  (void)!pwrite(file_.get(), text.data(), text.size(), 0);
}

std::vector<OwnedFd> MemoryMeter::release() && {
  std::vector<OwnedFd> all;
  if (file_.valid()) all.push_back(std::move(file_));
  if (usage_.valid()) all.push_back(std::move(usage_));
  return all;
}

}  // namespace lambent::sandbox
