#include "gpu/executor/device_store.h"

#include <utility>

#include "core/base/check.h"

namespace lambent::executor {

DeviceStore::~DeviceStore() {
  for (const auto& [name, entry] : entries_) pool_.give_back(entry.address);
}

DeviceStore::Entry* DeviceStore::find(const DeviceName& name) {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

Result<DeviceStore::Placed> DeviceStore::place(const DeviceName& name, Bytes size, uint64_t user) {
  CHECK(find(name) == nullptr, "a place is made once");
  auto block = pool_.take(size, user);
  if (!block.ok() && block.error().code == ErrorCode::kResourceExhausted) {
    // Short of the limit, or of the device, which others may have filled below the limit.
    const Bytes wanted = pool_.rounded(size);
    const Bytes missing = pool_.used() + wanted - pool_.limit();
    const auto victims = cache_.victims(missing.count > 0 ? missing : wanted);
    if (!victims) return block.error();
    evict(*victims);
    block = pool_.take(size, user);
  }
  if (!block.ok()) return block.error();
  Entry entry;
  entry.address = block->address;
  entry.size = block->size;
  entry.number = ++last_number_;
  entry.pins = 1;
  cache_.add(entry.number, entry.size);
  cache_.pin(entry.number);
  if (wanted_.contains(name)) cache_.need(entry.number);
  names_.emplace(entry.number, name);
  entries_.emplace(name, std::move(entry));
  return Placed{block->address, block->own};
}

void DeviceStore::pin(const DeviceName& name) {
  Entry* entry = find(name);
  CHECK(entry != nullptr, "it lies here");
  ++entry->pins;
  entry->last_use = ++last_use_;
  cache_.pin(entry->number);
}

void DeviceStore::unpin(const DeviceName& name) {
  Entry* entry = find(name);
  CHECK(entry != nullptr, "what is pinned stays");
  --entry->pins;
  cache_.unpin(entry->number);
  if (entry->leaves && entry->pins == 0) return evict({entry->number});
  // The limit fell while it was in use.
  if (pool_.used() > pool_.limit()) set_limit(pool_.limit());
}

uint64_t DeviceStore::need(const DeviceName& name) {
  const Entry* entry = find(name);
  if (entry == nullptr) return 0;
  cache_.need(entry->number);
  return entry->number;
}

void DeviceStore::unneed(uint64_t ticket) {
  if (names_.contains(ticket)) cache_.unneed(ticket);
}

void DeviceStore::want(const DeviceName& name, bool wanted) {
  const bool changed = wanted ? wanted_.insert(name).second : wanted_.erase(name) > 0;
  const Entry* entry = changed ? find(name) : nullptr;
  if (entry == nullptr) return;
  if (wanted) {
    cache_.need(entry->number);
  } else {
    cache_.unneed(entry->number);
  }
}

void DeviceStore::rename(const DeviceName& from, const DeviceName& to) {
  auto node = entries_.extract(from);
  CHECK(!node.empty(), "it lies here");
  CHECK(find(to) == nullptr, "the new name is free");
  if (wanted_.contains(from)) cache_.unneed(node.mapped().number);
  if (wanted_.contains(to)) cache_.need(node.mapped().number);
  names_[node.mapped().number] = to;
  node.key() = to;
  entries_.insert(std::move(node));
}

void DeviceStore::drop(const DeviceName& name) {
  const Entry* entry = find(name);
  if (entry != nullptr && entry->pins == 0) evict({entry->number});
}

void DeviceStore::leave(const DeviceName& name) {
  want(name, false);
  Entry* entry = find(name);
  if (entry == nullptr) return;
  entry->leaves = true;
  drop(name);
}

void DeviceStore::set_limit(Bytes limit) {
  const Bytes above = pool_.used() - limit;
  const Bytes unpinned = cache_.total() - cache_.pinned();
  if (const auto victims = cache_.victims(std::min(above, unpinned))) evict(*victims);
  pool_.set_limit(limit);
}

void DeviceStore::make_room(Bytes size) {
  const Bytes missing = size - pool_.free();
  if (missing == Bytes(0)) return;
  const Bytes unpinned = cache_.total() - cache_.pinned();
  if (const auto victims = cache_.victims(std::min(missing, unpinned))) evict(*victims);
}

MemoryPool::Leaving DeviceStore::trim(Bytes most, uint64_t looks,
                                      const std::function<bool(SandboxId)>& is_idle) {
  MemoryPool::Leaving leaving = pool_.begin_unmapping_idle(most, looks);
  const auto gone = [&leaving] {
    Bytes sum;
    for (const auto& [address, size] : leaving) sum += size;
    return sum;
  };
  const auto unpinned = cache_.victims(cache_.total() - cache_.pinned());
  CHECK(unpinned.has_value(), "what is not pinned can go");
  for (const uint64_t number : *unpinned) {
    if (gone() >= most) break;
    const DeviceName& name = names_.at(number);
    if (name.kind != DeviceName::Kind::kInstanceBuffer || !is_idle(SandboxId(name.high))) continue;
    pool_.give_to_device(forget(number), &leaving);
  }
  return leaving;
}

void DeviceStore::evict(const std::vector<uint64_t>& victims) {
  for (const uint64_t number : victims) pool_.give_back(forget(number));
}

CUdeviceptr DeviceStore::forget(uint64_t number) {
  const auto name = names_.find(number);
  const auto entry = entries_.find(name->second);
  const CUdeviceptr address = entry->second.address;
  const bool was_held = entry->second.filled && is_shareable(entry->second.size);
  const DeviceName gone = name->second;
  cache_.remove(number);
  entries_.erase(entry);
  names_.erase(name);
  if (gone.kind == DeviceName::Kind::kObject && was_held && on_object_gone_) {
    on_object_gone_(gone.object());
  }
  return address;
}

}  // namespace lambent::executor
