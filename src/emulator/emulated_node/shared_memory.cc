#include "emulator/emulated_node/shared_memory.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace lambent::emulated_node {

namespace {

uint32_t bound_of(const SharedMemory& memory) {
  return std::min<uint32_t>(memory.bound, kMaxShared);
}

SharedAllocation* find(SharedMemory& memory, SharedHandle handle) {
  if (handle.id == 0 || handle.index >= kMaxShared) return nullptr;
  SharedAllocation& entry = memory.entries[handle.index];
  return entry.id == handle.id ? &entry : nullptr;
}

bool holds(const SharedAllocation& entry, uint32_t process) {
  return process < kMaxHolders && (entry.holders[process / 32] >> (process % 32) & 1);
}

void release(SharedAllocation& entry, uint32_t process) {
  if (process < kMaxHolders) entry.holders[process / 32] &= ~(1u << (process % 32));
  bool held = std::any_of(std::begin(entry.holders), std::end(entry.holders),
                          [](uint32_t bits) { return bits != 0; });
  if (!held) std::memset(static_cast<void*>(&entry), 0, sizeof entry);
}

void lower_bound(SharedMemory& memory) {
  uint32_t bound = bound_of(memory);
  while (bound > 0 && memory.entries[bound - 1].id == 0) bound--;
  memory.bound = bound;
}

}  // namespace

SharedHandle share(SharedMemory& memory, int device, uint64_t bytes, uint32_t process) {
  if (process >= kMaxHolders) return {};
  for (uint32_t i = 0; i < kMaxShared; i++) {
    SharedAllocation& entry = memory.entries[i];
    if (entry.id != 0) continue;
    memory.bound = std::max(memory.bound, i + 1);
    std::memset(static_cast<void*>(&entry), 0, sizeof entry);  // a dead writer's beginnings
    entry.bytes = bytes;
    entry.device = device;
    entry.holders[process / 32] = 1u << (process % 32);
    entry.id = ++memory.next_id;  // last: from here on it counts
    return {i, entry.id};
  }
  return {};
}

bool hold(SharedMemory& memory, SharedHandle handle, uint32_t process) {
  SharedAllocation* entry = find(memory, handle);
  if (!entry || process >= kMaxHolders) return false;
  entry->holders[process / 32] |= 1u << (process % 32);
  return true;
}

void drop(SharedMemory& memory, SharedHandle handle, uint32_t process) {
  SharedAllocation* entry = find(memory, handle);
  if (!entry) return;
  release(*entry, process);
  lower_bound(memory);
}

void drop_holder(SharedMemory& memory, uint32_t process) {
  for (uint32_t i = 0; i < bound_of(memory); i++) {
    if (memory.entries[i].id != 0) release(memory.entries[i], process);
  }
  lower_bound(memory);
}

uint64_t shared_bytes(const SharedMemory& memory, int device) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < bound_of(memory); i++) {
    const SharedAllocation& entry = memory.entries[i];
    if (entry.id != 0 && entry.device == device) total += entry.bytes;
  }
  return total;
}

uint64_t shared_bytes_of(const SharedMemory& memory, int device, uint32_t process) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < bound_of(memory); i++) {
    const SharedAllocation& entry = memory.entries[i];
    if (entry.id != 0 && entry.device == device && holds(entry, process)) total += entry.bytes;
  }
  return total;
}

}  // namespace lambent::emulated_node
