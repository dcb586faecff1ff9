#include "gpu/device_memory/address_space.h"

namespace lambent::device_memory {

bool AddressSpace::add_region(uint64_t base, uint64_t bytes) {
  if (!regions_.insert({base, bytes})) return false;
  if (free_.insert({base, bytes})) return true;
  regions_.remove(regions_.at(base));
  return false;
}

uint64_t AddressSpace::take(uint64_t bytes) {
  if (bytes == 0) return 0;
  for (AddressRange& range : free_) {
    if (range.bytes < bytes) continue;
    const uint64_t base = range.base;
    range.base += bytes;
    range.bytes -= bytes;
    if (range.bytes == 0) free_.remove(&range);
    return base;
  }
  return 0;
}

// Ranges grow together within their region only: what spans two was never reserved in one piece.
void AddressSpace::give_back(uint64_t base, uint64_t bytes) {
  const AddressRange* region = regions_.containing(base);
  if (region == nullptr || bytes == 0) return;
  AddressRange whole{base, bytes};
  if (AddressRange* before = free_.ending_at(base);
      before != nullptr && before->base >= region->base) {
    whole = {before->base, before->bytes + bytes};
    free_.remove(before);
  }
  const uint64_t end = whole.base + whole.bytes;
  if (AddressRange* behind = free_.at(end);
      behind != nullptr && end < region->base + region->bytes) {
    whole.bytes += behind->bytes;
    free_.remove(behind);
  }
  // Without memory these addresses are not used again, and that is all.
  free_.insert(whole);
}

uint64_t AddressSpace::free_bytes() {
  uint64_t sum = 0;
  for (const AddressRange& range : free_) sum += range.bytes;
  return sum;
}

}  // namespace lambent::device_memory
