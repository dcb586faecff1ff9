// The pages behind memory that is made apart from its addresses: extents of one file in memory,
// kept for reuse up to a bound. Used by PhysicalMemory, any thread.
//
// The file belongs to one process, so an extent may come back with what that process left in it, as
// on a GPU; memory that can reach another process never comes from here. One file, because each
// costs a descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "core/base/mutex.h"

namespace lambent::emulated_cuda {

constexpr size_t kBackingBlockBytes = size_t{2} << 20;
constexpr size_t kMostKeptBackingBytes = size_t{256} << 20;

class Backing {
 public:
  Backing() = default;
  ~Backing();
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;

  // The offset of `bytes`, rounded up to blocks; empty if the system has none. Pages come when
  // they are touched.
  std::optional<size_t> take(size_t bytes);
  // The pages stay for the next taker while less than kMostKeptBackingBytes are kept so.
  void give_back(size_t offset, size_t bytes);

  int descriptor() const;  // once something was taken
  size_t kept_bytes() const;

 private:
  using Extents = std::map<size_t, size_t>;  // bytes by offset, neighbours merged
  static std::optional<size_t> carve(Extents& extents, size_t bytes);
  static void merge(Extents& extents, size_t offset, size_t bytes);

  mutable Mutex mutex_;
  int descriptor_ GUARDED_BY(mutex_) = -1;
  size_t file_bytes_ GUARDED_BY(mutex_) = 0;
  Extents kept_ GUARDED_BY(mutex_);   // with pages
  Extents holes_ GUARDED_BY(mutex_);  // without
  size_t kept_bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace lambent::emulated_cuda
