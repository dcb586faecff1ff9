#include "gpu/shim/block_maker.h"

#include "gpu/shim/driver_mapping.h"
#include "gpu/shim/environment.h"
#include "gpu/shim/log.h"
#include "gpu/shim/managed_memory.h"

namespace lambent::shim {
namespace {

using device_memory::Allocation;
using device_memory::Allocations;
using device_memory::Block;

// Addresses cost nothing, so they are reserved for more than the device has.
constexpr uint64_t kRegionsOfDevice = 4;

}  // namespace

bool BlockMaker::can_make(Device device) const {
  return is_managed() ? device_can_manage(device) : device_can_map(device);
}

bool BlockMaker::has_reserved(Address address) { return space_.hold()->is_reserved(address); }

Status BlockMaker::make(const Allocation& allocation, Handle context, bool is_offloaded,
                        Block* made) {
  return is_managed() ? make_managed(allocation, context, made)
                      : make_mapped(allocation, context, is_offloaded, made);
}

Status BlockMaker::make_mapped(const Allocation& allocation, Handle context, bool is_offloaded,
                               Block* made) {
  Block block;
  const bool is_small = Allocations::is_small(allocation.bytes);
  block.owner = allocation.owner;
  block.context = context;
  block.bytes = rounded_up(allocation.bytes, kMappingGranularity);
  block.used_bytes =
      is_small ? block.bytes : rounded_up(allocation.bytes, device_memory::kPieceBytes);
  Status status = take_addresses(block.owner.device, block.bytes, &block.base);
  if (status != kSuccess) return status;
  status = is_offloaded ? back_with_host_memory(&block) : kAskDriver;
  if (status != kSuccess) {
    status = create_and_map(block.owner.device, block.base, block.bytes, &block.physical);
  }
  if (status == kSuccess) {
    *made = block;
    return status;
  }
  space_.hold()->give_back(block.base, block.bytes);
  if (status == kOutOfMemory) return status;
  log_line("mapping %lu bytes failed (%d): they stay plain", allocation.bytes, status);
  return kAskDriver;
}

Status BlockMaker::back_with_host_memory(Block* block) {
  const Device device = block->owner.device;
  if (!device_can_map_host(device)) return kAskDriver;
  Status status = create_physical_on_host(device, block->bytes, &block->physical);
  if (status != kSuccess) return status;
  status = map_physical(block->base, block->bytes, block->physical);
  if (status == kSuccess) {
    status = open_access(block->base, block->bytes, device);
    if (status != kSuccess) unmap(block->base, block->bytes);
  }
  if (status != kSuccess) {
    release_physical(block->physical);
    block->physical = 0;
  }
  block->is_offloaded = status == kSuccess;
  return status;
}

// It takes its place on the device at once, as plain memory does: so what the device cannot hold is
// refused here, and not met as a fault later.
Status BlockMaker::make_managed(const Allocation& allocation, Handle context, Block* made) {
  Block block;
  block.owner = allocation.owner;
  block.context = context;
  block.bytes = room_for(allocation.bytes);
  block.used_bytes = block.bytes;
  const bool oversubscribes = may_oversubscribe();
  if (!oversubscribes && block.bytes > free_bytes_of_current_device()) return kOutOfMemory;
  Status status = allocate_managed(block.owner.device, block.bytes, &block.base);
  if (status == kSuccess && !oversubscribes) {
    status = populate_managed(block.owner.device, block.base, block.bytes);
    if (status != kSuccess) free_managed(block.base);
  }
  if (status == kSuccess) *made = block;
  return status;
}

Status BlockMaker::take_addresses(Device device, uint64_t bytes, uint64_t* base) {
  *base = space_.hold()->take(bytes);
  if (*base != 0) return kSuccess;
  uint64_t region = rounded_up(device_bytes(device), kMappingGranularity) * kRegionsOfDevice;
  if (region < bytes) region = bytes;
  Status status = reserve_addresses(region, base);
  if (status != kSuccess && region > bytes) {
    region = bytes;
    status = reserve_addresses(region, base);
  }
  if (status != kSuccess) return status == kOutOfMemory ? status : kAskDriver;
  auto space = space_.hold();
  if (!space->add_region(*base, region)) return kOutOfMemory;
  *base = space->take(bytes);
  return *base != 0 ? kSuccess : kOutOfMemory;
}

void BlockMaker::dispose_of(const Block& block) {
  if (is_managed()) return free_managed(block.base);
  if (block.physical != 0) {
    unmap(block.base, block.bytes);
    release_physical(block.physical);
  }
  space_.hold()->give_back(block.base, block.bytes);
}

}  // namespace lambent::shim
