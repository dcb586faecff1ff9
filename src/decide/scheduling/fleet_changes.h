// FleetChanges: the last changes that may have changed where a flow has a place, for policies that
// keep notes of what they were answered, and for ColdPlaces. Owned by Fleet, whose parts write it;
// read by policies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/ids.h"

namespace lambent::scheduling {

// Devices, and functions whose sandboxes changed. A policy sees the fleet as const, and may say all
// the same whether it listens: nothing of the fleet depends on it.
class FleetChanges {
 public:
  explicit FleetChanges(size_t devices) : has_changed_(devices) {}

  // Whether changes are told from now on: not while the policy keeps no notes.
  void tell(bool told) const { told_ = told; }
  // Counts them.
  uint64_t count() const {
    last_ = kNone;
    return count_;
  }
  // Tells what changed since: `device(index)`, or `function(id)` where it was one of its sandboxes.
  // False: too much to be remembered.
  template <typename Device, typename Function>
  bool for_each_since(uint64_t count, Device device, Function function) const {
    if (count_ - count > kRemembered) return false;
    for (; count < count_; ++count) {
      const uint32_t change = ring_[count % kRemembered];
      change& kIsFunction ? function(change & ~kIsFunction) : device(change);
    }
    return true;
  }

  // Counts the changes of devices, whether told or not.
  uint64_t version() const { return version_; }
  // Tells each device whose load has changed since the last call.
  template <typename Visit>
  void visit_loads(Visit visit) const {
    for (const uint32_t device : changed_) {
      has_changed_[device] = 0;
      visit(device);
    }
    changed_.clear();
  }

  void note_device(uint32_t index) {
    ++version_;
    note(index);
  }
  // The same: its tokens, its memory or its health have changed.
  void note_load(uint32_t index) {
    note_device(index);
    if (has_changed_[index]) return;
    has_changed_[index] = 1;
    changed_.push_back(index);
  }
  void note_function(FunctionId function) { note(function.value | kIsFunction); }

 private:
  static constexpr uint32_t kIsFunction = 1U << 31;
  static constexpr uint32_t kNone = ~0U;
  static constexpr uint64_t kRemembered = 256;

  void note(uint32_t change) {
    // It often is the same one several times.
    if (!told_ || change == last_) return;
    last_ = change;
    ring_[count_++ % kRemembered] = change;
  }

  // Most changes come and go between two calls of visit_loads.
  mutable std::vector<uint32_t> changed_;
  mutable std::vector<uint8_t> has_changed_;  // bytes, because they are asked at every turn
  uint64_t version_ = 0;
  uint64_t count_ = 0;
  mutable uint32_t last_ = kNone;  // unless they were counted since
  mutable bool told_ = false;
  std::array<uint32_t, kRemembered> ring_{};
};

}  // namespace lambent::scheduling
