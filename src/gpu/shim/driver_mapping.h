// The driver's calls that reserve addresses, make physical memory and map one into the other, as
// the shim needs them. Any thread; nothing here is remembered but facts about devices.
#pragma once

#include <stdint.h>

#include "gpu/device_memory/allocations.h"
#include "gpu/shim/abi.h"

namespace lambent::shim {

// What memory is made and mapped in; no device of today asks for more.
constexpr uint64_t kMappingGranularity = uint64_t{2} << 20;
constexpr int kMostDevices = 64;

constexpr uint64_t rounded_up(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// What an allocation takes: whole pieces if it is small, else whole steps of the mapping.
inline uint64_t room_for(uint64_t bytes) {
  return rounded_up(bytes, device_memory::Allocations::is_small(bytes) ? device_memory::kPieceBytes
                                                                       : kMappingGranularity);
}

// Whether memory of the device can be made and mapped by hand, in steps of kMappingGranularity. If
// not, a line in the log says so once.
bool device_can_map(Device device);
// Whether the device can be let at host memory of the driver's making (CUDA 12.2 and newer).
bool device_can_map_host(Device device);
// All memory of the device, as the driver has it; 0 if it does not say.
uint64_t device_bytes(Device device);

// All numbers of bytes from here on are multiples of kMappingGranularity.
Status reserve_addresses(uint64_t bytes, uint64_t* base);
void free_addresses(uint64_t base, uint64_t bytes);
Status create_physical(Device device, uint64_t bytes, uint64_t* physical);
// The same, but host memory that the device can be let at: of its own node, where the host has
// several.
Status create_physical_on_host(Device device, uint64_t bytes, uint64_t* physical);
Status map_physical(uint64_t base, uint64_t bytes, uint64_t physical);
// Lets the device, and others that may (below), read and write what is mapped there: one mapping,
// or several side by side.
Status open_access(uint64_t base, uint64_t bytes, Device device);
void unmap(uint64_t base, uint64_t bytes);
void release_physical(uint64_t physical);
// The first two of an allocation and what open_access does; undoes what it began if one fails.
Status create_and_map(Device device, uint64_t base, uint64_t bytes, uint64_t* physical);

// From now on open_access lets `peer` at memory of `device` too.
void let_peer_in(Device device, Device peer);
bool is_let_in(Device device, Device peer);

}  // namespace lambent::shim
