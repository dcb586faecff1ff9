#include "gpu/shim/own_mappings.h"

namespace lambent::shim {
namespace {

// The driver's own handles are small numbers or addresses.
constexpr uint64_t kFirstHandle = 0xc0de'0000'0000'0000;

bool is_same_place(const CUmemLocation& a, const CUmemLocation& b) {
  return a.type == b.type && a.id == b.id;
}

// Replaces what was said of the location before; false if there is no room for one more.
bool remember(OwnMapping& mapping, const CUmemAccessDesc& access) {
  for (uint32_t i = 0; i < mapping.access_count; ++i) {
    if (!is_same_place(mapping.accesses[i].location, access.location)) continue;
    mapping.accesses[i] = access;
    return true;
  }
  if (mapping.access_count == OwnMapping::kMostAccesses) return false;
  mapping.accesses[mapping.access_count++] = access;
  return true;
}

bool is_open_to(const OwnMapping& mapping, const CUmemLocation& location) {
  for (uint32_t i = 0; i < mapping.access_count; ++i) {
    if (is_same_place(mapping.accesses[i].location, location)) {
      return mapping.accesses[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
  }
  return false;
}

}  // namespace

bool OwnMappings::can_move(const CUmemAllocationProp& properties) {
  return properties.type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         properties.allocFlags.usage == 0 && properties.win32HandleMetaData == nullptr;
}

uint64_t OwnMappings::add(uint64_t real, uint64_t size, const CUmemAllocationProp& properties,
                          unsigned long long flags, Handle context) {
  const PlainLock lock(mutex_);
  OwnPhysical physical;
  physical.base = kFirstHandle + ++last_handle_;
  physical.real = real;
  physical.size = size;
  physical.properties = properties;
  physical.flags = flags;
  physical.references = 1;
  physical.context = context;
  return physicals_.insert(physical) ? physical.base : 0;
}

uint64_t OwnMappings::real_of(uint64_t handle, bool stays) {
  const PlainLock lock(mutex_);
  OwnPhysical* physical = physicals_.at(handle);
  if (physical == nullptr || physical->references == 0) return handle;
  if (stays) physical->stays = true;
  return physical->real;
}

bool OwnMappings::holds(uint64_t address) {
  const PlainLock lock(mutex_);
  for (const OwnMapping& mapping : mappings_) {
    if (address >= mapping.base && address - mapping.base < mapping.bytes) return true;
  }
  return false;
}

void OwnMappings::keep(uint64_t address, uint64_t bytes) {
  const PlainLock lock(mutex_);
  for (const OwnMapping& mapping : mappings_) {
    const bool apart = mapping.base >= address + bytes || address >= mapping.base + mapping.bytes;
    OwnPhysical* physical = apart ? nullptr : physicals_.at(mapping.physical);
    if (physical != nullptr) physical->stays = true;
  }
}

bool OwnMappings::properties_of(uint64_t handle, CUmemAllocationProp* properties) {
  const PlainLock lock(mutex_);
  const OwnPhysical* physical = physicals_.at(handle);
  if (physical == nullptr || physical->references == 0) return false;
  *properties = physical->properties;
  return true;
}

uint64_t OwnMappings::drop_if_unused(OwnPhysical* physical) {
  if (physical->references > 0 || physical->mappings > 0) return 0;
  const uint64_t real = physical->real;
  physicals_.remove(physical);
  return real;
}

bool OwnMappings::release(uint64_t handle, bool* is_valid, uint64_t* real) {
  const PlainLock lock(mutex_);
  OwnPhysical* physical = physicals_.at(handle);
  if (physical == nullptr) return false;
  *real = 0;
  *is_valid = physical->references > 0;
  if (!*is_valid) return true;
  --physical->references;
  *real = drop_if_unused(physical);
  return true;
}

uint64_t OwnMappings::retain(uint64_t address) {
  const PlainLock lock(mutex_);
  const OwnMapping* mapping = mappings_.containing(address);
  if (mapping == nullptr) return 0;
  ++physicals_.at(mapping->physical)->references;
  return mapping->physical;
}

bool OwnMappings::map(uint64_t address, uint64_t bytes, uint64_t handle) {
  const PlainLock lock(mutex_);
  OwnPhysical* physical = physicals_.at(handle);
  if (physical == nullptr) return true;  // none of ours
  OwnMapping mapping;
  mapping.base = address;
  mapping.bytes = bytes;
  mapping.physical = handle;
  if (!mappings_.insert(mapping)) return false;
  ++physical->mappings;
  return true;
}

uint64_t OwnMappings::unmap(uint64_t address, uint64_t bytes) {
  const PlainLock lock(mutex_);
  for (size_t i = 0; i < mappings_.size();) {
    OwnMapping* mapping = mappings_.begin() + i;
    if (mapping->base < address || mapping->base - address >= bytes) {
      ++i;
      continue;
    }
    OwnPhysical* physical = physicals_.at(mapping->physical);
    mappings_.remove(mapping);
    --physical->mappings;
    if (const uint64_t real = drop_if_unused(physical); real != 0) return real;
  }
  return 0;
}

void OwnMappings::set_access(uint64_t address, uint64_t bytes, const CUmemAccessDesc* wanted,
                             size_t count) {
  const PlainLock lock(mutex_);
  for (OwnMapping& mapping : mappings_) {
    if (mapping.base < address || mapping.base - address >= bytes) continue;
    OwnPhysical* physical = physicals_.at(mapping.physical);
    for (size_t i = 0; i < count; ++i) {
      if (!remember(mapping, wanted[i])) physical->stays = true;
    }
    const bool is_whole = mapping.bytes == physical->size;
    if (is_whole && is_open_to(mapping, physical->properties.location)) {
      physical->way = mapping.base;
    }
  }
}

void OwnMappings::context_is_gone(Handle context) {
  const PlainLock lock(mutex_);
  for (OwnPhysical& physical : physicals_) {
    if (physical.context == context) physical.context = nullptr;
  }
}

const OwnMapping* OwnMappings::way_to(const OwnPhysical& physical) {
  if (physical.stays || physical.way == 0) return nullptr;
  const OwnMapping* mapping = mappings_.at(physical.way);
  // It may have been closed, or something else lie there by now.
  const bool is_whole =
      mapping != nullptr && mapping->physical == physical.base && mapping->bytes == physical.size;
  return is_whole && is_open_to(*mapping, physical.properties.location) ? mapping : nullptr;
}

uint64_t OwnMappings::moving_bytes() {
  const PlainLock lock(mutex_);
  uint64_t sum = 0;
  for (const OwnPhysical& physical : physicals_) {
    if (way_to(physical) != nullptr) sum += physical.size;
  }
  return sum;
}

Handle OwnMappings::some_context(Device device) {
  for (const OwnPhysical& physical : physicals_) {
    if (physical.properties.location.id == device && physical.context != nullptr) {
      return physical.context;
    }
  }
  return nullptr;
}

uint64_t OwnMappings::counted_moving_bytes(const Accounting& accounting, Device device) {
  const PlainLock lock(mutex_);
  uint64_t sum = 0;
  for (const OwnPhysical& physical : physicals_) {
    if (accounting.counted_on(physical.properties.location.id) != device) continue;
    if (way_to(physical) != nullptr) sum += accounting.charge_of(physical.size);
  }
  return sum;
}

}  // namespace lambent::shim
