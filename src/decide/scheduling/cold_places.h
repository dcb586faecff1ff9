// ColdPlaces: which device takes a new sandbox of so much memory. It remembers what it found until
// some device changes, because policies ask at every decision. Owned by Places, on the loop thread.
#pragma once

#include <cstdint>

#include "core/base/units.h"
#include "decide/scheduling/device_table.h"
#include "decide/scheduling/fleet_changes.h"
#include "decide/scheduling/indexed_heap.h"
#include "decide/scheduling/place.h"
#include "decide/scheduling/wait_reason.h"

namespace lambent::scheduling {

// A new sandbox goes to the least loaded device; of equals to the one with most memory that is not
// at work, then to the first. Questions change only what is remembered.
class ColdPlaces {
 public:
  // Both outlive it.
  ColdPlaces(const DeviceTable& devices, const FleetChanges& changes)
      : devices_(devices), changes_(changes) {}

  PlaceOrReason find(Bytes memory, bool idle_devices_only) const;
  // Whether there is one, wherever it is; mostly known since the search before.
  bool any(Bytes memory, bool idle_devices_only) const {
    if (devices_.pool_is_full()) return false;
    if (idle_devices_only && !devices_.any_idle()) return false;
    const Bytes fits_below = searches_[idle_devices_only ? 1 : 0].fits_below;
    if (searches_stand() && memory < fits_below) return true;
    return look_for_any(memory, idle_devices_only);
  }
  // What keeps a healthy device from taking one; kNone: nothing does.
  WaitReason obstacle(const Device& device, Bytes memory) const;

 private:
  // What is known until some device changes: there is a place for less than so much memory; there
  // is none for so much or more, for the same reason.
  struct Searches {
    Bytes fits_below;
    bool failed = false;
    Bytes memory;
    WaitReason reason = WaitReason::kNone;
  };
  struct Rank {
    unsigned load = 0;
    uint64_t memory_at_work = 0;  // larger the less is spare
    auto operator<=>(const Rank&) const = default;
  };

  bool takes(const Device& device, Bytes memory) const {
    return obstacle(device, memory) == WaitReason::kNone;
  }
  bool searches_stand() const { return version_ == changes_.version(); }
  Searches& searches(bool idle_devices_only) const;
  void note_place(const Device& device, Bytes memory, bool idle_devices_only) const;
  bool look_for_any(Bytes memory, bool idle_devices_only) const;
  PlaceOrReason scan(Bytes memory, bool idle_devices_only) const;
  void renew_order() const;

  const DeviceTable& devices_;
  const FleetChanges& changes_;
  // Healthy devices with room for a cold start, in their order, but for those that have changed
  // since the last search.
  mutable IndexedHeap<Rank> order_;
  mutable Searches searches_[2];  // on any device, and only on idle ones
  mutable uint64_t version_ = 0;  // of the devices, when those began
  // Where look_for_any begins, and at how many devices from there it looks.
  mutable uint32_t last_[2] = {0, 0};
  static constexpr size_t kNearLast = 8;
};

}  // namespace lambent::scheduling
