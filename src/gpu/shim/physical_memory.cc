// The part of Accounting that follows physical memory (cuMemCreate). A handle may be released while
// its memory is still mapped, and the driver may then hand the same handle out again; so the memory
// has a number of ours, and handles and mappings point to it.
#include "gpu/shim/accounting.h"

namespace lambent::shim {

void Accounting::record_physical(uint64_t handle, uint64_t charge, int device) {
  of(device).keep(charge);
  const PlainLock lock(mutex_);
  Entry memory;
  memory.kind = Kind::kPhysical;
  memory.key = ++last_physical_;
  memory.bytes = charge;
  memory.references = 1;
  memory.device = device;
  Entry name;
  name.kind = Kind::kHandle;
  name.key = handle;
  name.target = memory.key;
  name.references = 1;
  if (!table_.insert(memory) || !table_.insert(name)) {
    table_.remove(Kind::kPhysical, memory.key);
    of(device).release(charge);
  }
}

// cuMemRetainAllocationHandle gives a handle, perhaps a new one, for what is mapped at `address`.
void Accounting::retain_physical(uint64_t handle, uint64_t address) {
  const PlainLock lock(mutex_);
  if (Entry* name = table_.find(Kind::kHandle, handle); name != nullptr) {
    ++name->references;
    return;
  }
  const Entry* mapping = table_.find_if([address](const Entry& entry) {
    return entry.kind == Kind::kMapping && address >= entry.key &&
           address - entry.key < entry.bytes;
  });
  Entry* memory = mapping == nullptr ? nullptr : table_.find(Kind::kPhysical, mapping->target);
  if (memory == nullptr) return;
  ++memory->references;
  Entry name;
  name.kind = Kind::kHandle;
  name.key = handle;
  name.target = memory->key;
  name.references = 1;
  if (!table_.insert(name)) drop_reference(name.target);
}

uint64_t Accounting::forget_handle(uint64_t handle) {
  const PlainLock lock(mutex_);
  Entry* name = table_.find(Kind::kHandle, handle);
  if (name == nullptr || --name->references > 0) return 0;
  const uint64_t physical = name->target;
  table_.remove(Kind::kHandle, handle);
  return physical;
}

void Accounting::settle_handle(uint64_t handle, uint64_t physical, bool released) {
  const PlainLock lock(mutex_);
  if (released) {
    if (physical != 0) drop_reference(physical);
    return;
  }
  if (Entry* name = table_.find(Kind::kHandle, handle); name != nullptr) {
    ++name->references;
    return;
  }
  if (physical == 0) return;
  Entry name;
  name.kind = Kind::kHandle;
  name.key = handle;
  name.target = physical;
  name.references = 1;
  if (!table_.insert(name)) drop_reference(physical);
}

void Accounting::map_physical(uint64_t address, uint64_t bytes, uint64_t handle) {
  const PlainLock lock(mutex_);
  Entry* name = table_.find(Kind::kHandle, handle);
  Entry* memory = name == nullptr ? nullptr : table_.find(Kind::kPhysical, name->target);
  if (memory == nullptr) return;
  Entry mapping;
  mapping.kind = Kind::kMapping;
  mapping.key = address;
  mapping.bytes = bytes;
  mapping.target = memory->key;
  ++memory->references;
  if (!table_.insert(mapping)) drop_reference(mapping.target);
}

void Accounting::unmap_physical(uint64_t address, uint64_t bytes) {
  const PlainLock lock(mutex_);
  // One after the other: dropping a reference changes the table.
  while (const Entry* mapping = table_.find_if([=](const Entry& entry) {
    return entry.kind == Kind::kMapping && entry.key >= address && entry.key - address < bytes;
  })) {
    const Entry unmapped = table_.remove(Kind::kMapping, mapping->key);
    drop_reference(unmapped.target);
  }
}

void Accounting::drop_reference(uint64_t physical) {
  Entry* memory = table_.find(Kind::kPhysical, physical);
  if (memory == nullptr || --memory->references > 0) return;
  of(memory->device).release(memory->bytes);
  table_.remove(Kind::kPhysical, physical);
}

}  // namespace lambent::shim
