#include "gpu/shim/own_moves.h"

#include "driver_slots.h"
#include "gpu/shim/copier.h"
#include "gpu/shim/driver_mapping.h"
#include "gpu/shim/log.h"

namespace lambent::shim {
namespace {

using protocol::LinkDirection;
using protocol::MemoryMoveStatus;

uint64_t bytes_on(OwnMappings& own, Device device) {
  uint64_t sum = 0;
  for (const OwnPhysical& physical : own.physicals()) {
    const bool is_here = physical.properties.location.id == device;
    if (is_here && own.way_to(physical) != nullptr) sum += physical.size;
  }
  return sum;
}

template <typename Told>
void for_each_mapping(OwnMappings& own, const OwnPhysical& physical, Told told) {
  if (physical.mappings == 1) return told(*own.way_to(physical));  // as nearly always
  for (const OwnMapping& mapping : own.mappings()) {
    if (mapping.physical == physical.base) told(mapping);
  }
}

// Makes the memory again and maps it wherever it was, for those who could use it there.
int make_again(OwnMappings& own, OwnPhysical& physical) {
  PhysicalHandle real = 0;
  const auto create =
      REAL(cuMemCreate, PhysicalHandle*, size_t, const CUmemAllocationProp*, unsigned long long);
  int status = create(&real, physical.size, &physical.properties, physical.flags);
  if (status != kSuccess) return status;
  physical.real = real;
  const auto set = REAL(cuMemSetAccess, Address, size_t, const CUmemAccessDesc*, size_t);
  for_each_mapping(own, physical, [&](const OwnMapping& mapping) {
    if (status == kSuccess) status = map_physical(mapping.base, mapping.bytes, real);
    if (status != kSuccess || mapping.access_count == 0) return;
    status = set(mapping.base, mapping.bytes, mapping.accesses, mapping.access_count);
  });
  return status;
}

}  // namespace

// Behind the blocks in the row of the arena, in order of handles, those of the first device first.
MemoryMoveStatus OwnMoves::carry(OwnMappings& own, Blocks& blocks, uint64_t position,
                                 LinkDirection direction) {
  for (Device device = 0; device < kMostDevices; ++device) {
    const uint64_t bytes = bytes_on(own, device);
    if (bytes == 0) continue;
    const ContextOf context(blocks, device, own.some_context(device));
    if (!context.is_current()) return Status::kFailed;
    host_.register_all();
    Copier copier(device, direction, bytes, link_, host_.arena());
    int status = kSuccess;
    for (OwnPhysical& physical : own.physicals()) {
      const OwnMapping* way = own.way_to(physical);
      if (way == nullptr || physical.properties.location.id != device) continue;
      if (direction == LinkDirection::kToDevice) status = make_again(own, physical);
      if (status == kSuccess) status = copier.copy(way->base, position, physical.size);
      if (status != kSuccess) break;
      position += physical.size;
    }
    const int finished = copier.finish();
    if (status == kSuccess) status = finished;
    if (status == kOutOfMemory) return Status::kNoDeviceMemory;
    if (status == kSuccess) continue;
    log_line("moving memory that the program mapped failed: %d", status);
    return Status::kFailed;
  }
  return Status::kDone;
}

void OwnMoves::release(OwnMappings& own) {
  for (OwnPhysical& physical : own.physicals()) {
    if (physical.real == 0 || own.way_to(physical) == nullptr) continue;
    for_each_mapping(own, physical,
                     [](const OwnMapping& mapping) { unmap(mapping.base, mapping.bytes); });
    release_physical(physical.real);
    physical.real = 0;
  }
}

}  // namespace lambent::shim
