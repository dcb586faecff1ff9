// AddressRanges: which device memory a client's process may name. A resource of one thread.
#pragma once

#include <cstdint>
#include <map>

#include "gpu/cuda_abi/driver_types.h"

namespace lambent::forward_server {

struct AddressRange {
  uint64_t bytes = 0;
  // Against the client's limit; 0: it is a module's, or was opened and is another's.
  uint64_t counted_bytes = 0;
  uint64_t context = 0;
  uint64_t module = 0;  // whose variable it is; 0: it was allocated
};

class AddressRanges {
 public:
  void add(CUdeviceptr address, const AddressRange& range) { ranges_[address] = range; }
  void erase(CUdeviceptr address) { erasures_ += ranges_.erase(address); }
  // How many were erased, ever: what was contained before still is while this stays the same.
  uint64_t erasures() const { return erasures_; }
  // The range that begins there.
  const AddressRange* find(CUdeviceptr address) const {
    const auto found = ranges_.find(address);
    return found == ranges_.end() ? nullptr : &found->second;
  }
  // Whether all of [address, address + bytes) lies in one range.
  bool contains(CUdeviceptr address, uint64_t bytes) const {
    auto after = ranges_.upper_bound(address);
    if (after == ranges_.begin()) return false;
    const auto& [begin, range] = *std::prev(after);
    const uint64_t offset = address - begin;
    return offset <= range.bytes && bytes <= range.bytes - offset;
  }
  // The same for rows; `height` of them, `pitch` bytes apart, of which none begins in another: to a
  // driver a pitch that is too small, such as 0, may mean another one.
  bool contains_rows(CUdeviceptr address, uint64_t pitch, uint64_t width, uint64_t height) const {
    if (width == 0 || height == 0) return true;
    if (height > 1 && pitch < width) return false;
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(pitch, height - 1, &bytes)) return false;
    if (__builtin_add_overflow(bytes, width, &bytes)) return false;
    return contains(address, bytes);
  }
  const std::map<CUdeviceptr, AddressRange>& all() const { return ranges_; }

 private:
  std::map<CUdeviceptr, AddressRange> ranges_;
  uint64_t erasures_ = 0;
};

}  // namespace lambent::forward_server
