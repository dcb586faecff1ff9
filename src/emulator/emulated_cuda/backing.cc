#include "emulator/emulated_cuda/backing.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <iterator>

namespace lambent::emulated_cuda {

namespace {
size_t in_blocks(size_t bytes) {
  return (bytes + kBackingBlockBytes - 1) / kBackingBlockBytes * kBackingBlockBytes;
}
}  // namespace

Backing::~Backing() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::optional<size_t> Backing::take(size_t bytes) {
  bytes = in_blocks(bytes);
  const MutexLock lock(mutex_);
  if (descriptor_ < 0) descriptor_ = memfd_create("device-memory", MFD_CLOEXEC);
  if (descriptor_ < 0) return std::nullopt;
  if (auto offset = carve(kept_, bytes)) {
    kept_bytes_ -= bytes;
    return offset;
  }
  if (auto offset = carve(holes_, bytes)) return offset;
  if (ftruncate(descriptor_, static_cast<off_t>(file_bytes_ + bytes)) != 0) return std::nullopt;
  file_bytes_ += bytes;
  return file_bytes_ - bytes;
}

void Backing::give_back(size_t offset, size_t bytes) {
  bytes = in_blocks(bytes);
  const MutexLock lock(mutex_);
  if (kept_bytes_ + bytes <= kMostKeptBackingBytes) {
    kept_bytes_ += bytes;
    merge(kept_, offset, bytes);
    return;
  }
  (void)fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(offset), static_cast<off_t>(bytes));
  merge(holes_, offset, bytes);
}

int Backing::descriptor() const {
  const MutexLock lock(mutex_);
  return descriptor_;
}

size_t Backing::kept_bytes() const {
  const MutexLock lock(mutex_);
  return kept_bytes_;
}

std::optional<size_t> Backing::carve(Extents& extents, size_t bytes) {
  for (auto it = extents.begin(); it != extents.end(); ++it) {
    auto [offset, size] = *it;
    if (size < bytes) continue;
    extents.erase(it);
    if (size > bytes) extents[offset + bytes] = size - bytes;
    return offset;
  }
  return std::nullopt;
}

void Backing::merge(Extents& extents, size_t offset, size_t bytes) {
  auto it = extents.emplace(offset, bytes).first;
  auto next = std::next(it);
  if (next != extents.end() && offset + bytes == next->first) {
    it->second += next->second;
    extents.erase(next);
  }
  if (it == extents.begin()) return;
  auto previous = std::prev(it);
  if (previous->first + previous->second != offset) return;
  previous->second += it->second;
  extents.erase(it);
}

}  // namespace lambent::emulated_cuda
