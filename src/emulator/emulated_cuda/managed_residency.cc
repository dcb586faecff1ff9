#include "emulator/emulated_cuda/managed_residency.h"

#include <algorithm>

namespace lambent::emulated_cuda {

namespace {

uint32_t bit(int place) { return place == kHostPlace ? kHostBit : uint32_t{1} << place; }

void note(Traffic& traffic, int from, int to, uint64_t bytes) {
  for (Movement& movement : traffic.movements) {
    if (movement.from != from || movement.to != to) continue;
    movement.bytes += bytes;
    return;
  }
  traffic.movements.push_back({from, to, bytes});
}

}  // namespace

void ManagedResidency::add(uintptr_t base, size_t bytes) {
  Blocks& blocks = ranges_[base];
  for (size_t offset = 0; offset < bytes; offset += kManagedResidencyBlockBytes) {
    blocks.emplace_back().bytes =
        static_cast<uint32_t>(std::min(bytes - offset, kManagedResidencyBlockBytes));
  }
}

void ManagedResidency::remove(uintptr_t base) {
  auto it = ranges_.find(base);
  if (it == ranges_.end()) return;
  for (Block& block : it->second) {
    for (int place = 0; place < kMostPlaces - 1; place++) {
      if (resident(block, place)) leave(block, place);
    }
  }
  ranges_.erase(it);
}

template <class Visit>
void ManagedResidency::each(uintptr_t address, size_t bytes, Visit visit) {
  auto it = ranges_.upper_bound(address);
  if (it == ranges_.begin() || bytes == 0) return;
  --it;
  size_t offset = address - it->first;
  size_t last = std::min((offset + bytes - 1) / kManagedResidencyBlockBytes + 1, it->second.size());
  for (size_t i = offset / kManagedResidencyBlockBytes; i < last; i++) visit(it->second[i]);
}

template <class Visit>
void ManagedResidency::each(uintptr_t address, size_t bytes, Visit visit) const {
  const_cast<ManagedResidency*>(this)->each(address, bytes,
                                            [&](const Block& block) { visit(block); });
}

bool ManagedResidency::covers(uintptr_t address, size_t bytes) const {
  auto it = ranges_.upper_bound(address);
  if (it == ranges_.begin()) return false;
  --it;
  size_t total = 0, offset = address - it->first;
  for (const Block& block : it->second) total += block.bytes;
  return offset < total && bytes <= total - offset;
}

Traffic ManagedResidency::touch(uintptr_t address, size_t bytes, int place, bool write) {
  Traffic traffic;
  each(address, bytes, [&](Block& block) {
    const Advice& advice = block.advice;
    bool mapped = (advice.accessed_by & bit(place)) ||
                  (advice.preferred == block.place && advice.preferred != place);
    bool here = resident(block, place);
    if (!here && block.place != kNoPlace && mapped && !advice.read_mostly) {
      traffic.remote_bytes += block.bytes;
    } else if (!here) {
      if (block.place != kNoPlace || place != kHostPlace) traffic.faults++;
      if (place != kHostPlace && !make_room(place, block, traffic)) {
        if (block.place == kNoPlace) block.place = kHostPlace;
        traffic.remote_bytes += block.bytes;
      } else if (advice.read_mostly && !write && block.place != kNoPlace) {
        carry(block, place, traffic);
        block.duplicates |= bit(place);
        settle(block, place);
      } else {
        migrate(block, place, traffic);
      }
    }
    if (write) {  // one copy is the truth from now on: the toucher's, or the one it reaches
      int truth = resident(block, place) ? place : block.place;
      migrate(block, truth, traffic);
      block.discarded = false;
    }
    stamp(block);
  });
  return traffic;
}

Traffic ManagedResidency::prefetch(uintptr_t address, size_t bytes, int place) {
  Traffic traffic;
  each(address, bytes, [&](Block& block) {
    block.advice.prefetched = place;
    if (!resident(block, place)) {
      if (place != kHostPlace && !make_room(place, block, traffic)) return;
      if (block.advice.read_mostly && block.place != kNoPlace) {
        carry(block, place, traffic);
        block.duplicates |= bit(place);
        settle(block, place);
      } else {
        migrate(block, place, traffic);
      }
    }
    stamp(block);
  });
  return traffic;
}

void ManagedResidency::discard(uintptr_t address, size_t bytes) {
  each(address, bytes, [](Block& block) { block.discarded = true; });
}

int ManagedResidency::place_of(uintptr_t address) const {
  int place = kNoPlace;
  each(address, 1, [&](const Block& block) { place = block.place; });
  return place;
}

void ManagedResidency::advise(uintptr_t address, size_t bytes,
                              const std::function<void(Advice&)>& change) {
  Traffic none;
  each(address, bytes, [&](Block& block) {
    change(block.advice);
    if (!block.advice.read_mostly && block.duplicates) migrate(block, block.place, none);
  });
}

Advice ManagedResidency::advice(uintptr_t address, size_t bytes) const {
  std::optional<Advice> common;
  each(address, bytes, [&](const Block& block) {
    if (!common) {
      common = block.advice;
      return;
    }
    common->read_mostly = common->read_mostly && block.advice.read_mostly;
    common->accessed_by &= block.advice.accessed_by;
    if (common->preferred != block.advice.preferred) common->preferred = kNoPlace;
    if (common->prefetched != block.advice.prefetched) common->prefetched = kNoPlace;
  });
  return common.value_or(Advice{});
}

bool ManagedResidency::resident(const Block& block, int place) const {
  return block.place == place || (block.duplicates & bit(place));
}

// Counts the block in on the device, if need be by letting others go.
bool ManagedResidency::make_room(int device, const Block& wanted, Traffic& traffic) {
  while (!capacity_.take(device, wanted.bytes)) {
    auto& order = by_use_[device];
    auto oldest = order.begin();
    if (oldest != order.end() && oldest->second == &wanted) ++oldest;
    if (oldest == order.end()) return false;
    move_out(*oldest->second, device, traffic);
  }
  return true;
}

bool ManagedResidency::release(int device, Traffic& traffic) {
  auto& order = by_use_[device];
  if (order.empty()) return false;
  move_out(*order.begin()->second, device, traffic);
  return true;
}

void ManagedResidency::move_out(Block& block, int device, Traffic& traffic) {
  if (block.place != device) {
    leave(block, device);
    return;
  }
  if (block.duplicates) {  // another copy becomes the first
    int heir = kHostPlace;
    for (int place = 0; place < kMostPlaces - 1; place++) {
      if (block.duplicates & bit(place)) heir = place;
    }
    leave(block, device);
    block.duplicates &= ~bit(heir);
    block.place = heir;
    return;
  }
  if (!block.discarded) note(traffic, device, kHostPlace, block.bytes);
  leave(block, device);
  block.place = block.discarded ? kNoPlace : kHostPlace;
}

// Takes a copy away from a place and gives back its room.
void ManagedResidency::leave(Block& block, int place) {
  block.duplicates &= ~bit(place);
  if (block.place == place) block.place = kNoPlace;
  if (place == kHostPlace) return;
  by_use_[place].erase(block.used);
  capacity_.give(place, block.bytes);
}

void ManagedResidency::settle(Block& block, int place) {
  if (place != kHostPlace) by_use_[place][block.used] = &block;
}

void ManagedResidency::stamp(Block& block) {
  uint64_t now = ++clock_;
  for (int place = 0; place < kMostPlaces - 1; place++) {
    if (!resident(block, place)) continue;
    by_use_[place].erase(block.used);
    by_use_[place][now] = &block;
  }
  block.used = now;
}

void ManagedResidency::carry(Block& block, int to, Traffic& traffic) {
  if (block.place != kNoPlace && block.place != to && !block.discarded) {
    note(traffic, block.place, to, block.bytes);
  }
}

// Leaves one copy, at `to`, whose room is counted already.
void ManagedResidency::migrate(Block& block, int to, Traffic& traffic) {
  bool here = resident(block, to);
  if (!here) carry(block, to, traffic);
  for (int place = kHostPlace; place < kMostPlaces - 1; place++) {
    if (place != to && resident(block, place)) leave(block, place);
  }
  block.duplicates = 0;
  block.place = to;
  if (!here) settle(block, to);
}

}  // namespace lambent::emulated_cuda
