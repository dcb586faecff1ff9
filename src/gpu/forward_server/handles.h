// HandleTable: what a client's process may name by number. A number is good for one entry only: a
// stale or invented one finds nothing. Entries may count against a quota of the client. A resource
// of one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "gpu/forward_server/client_quotas.h"

namespace lambent::forward_server {

template <typename Entry>
class HandleTable {
 public:
  // Without a quota the owner of the table counts by itself.
  explicit HandleTable(Quota* quota) : quota_(quota) {}
  ~HandleTable() {
    if (quota_ != nullptr) quota_->give_back(live_);
  }
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  // 0 if the client has as many as it may.
  uint64_t add(Entry entry) {
    if (quota_ != nullptr && !quota_->take()) return 0;
    ++live_;
    uint32_t index = 0;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else {
      index = static_cast<uint32_t>(slots_.size());
      slots_.emplace_back();
    }
    slots_[index].entry.emplace(std::move(entry));
    return uint64_t{slots_[index].generation} << 32 | index << kShift;
  }
  Entry* find(uint64_t number) {
    const uint64_t index = (number & UINT32_MAX) >> kShift;
    if (index >= slots_.size() || (number & ((1 << kShift) - 1)) != 0) return nullptr;
    Slot& slot = slots_[index];
    return slot.generation == number >> 32 && slot.entry ? &*slot.entry : nullptr;
  }
  void erase(uint64_t number) {
    if (find(number) == nullptr) return;
    if (quota_ != nullptr) quota_->give_back();
    --live_;
    const auto index = static_cast<uint32_t>((number & UINT32_MAX) >> kShift);
    slots_[index].entry.reset();
    // After so many uses of a slot it rests for good.
    if (++slots_[index].generation != kLastGeneration) free_.push_back(index);
  }
  // `visit(number, entry)` may erase the entry.
  template <typename Visit>
  void for_each(Visit visit) {
    for (uint32_t index = 0; index < slots_.size(); ++index) {
      if (!slots_[index].entry) continue;
      visit(uint64_t{slots_[index].generation} << 32 | index << kShift, *slots_[index].entry);
    }
  }

 private:
  // Programs take handles for pointers: aligned, and never one of the driver's small constants.
  static constexpr int kShift = 4;
  static constexpr uint32_t kLastGeneration = uint32_t{1} << 15;

  struct Slot {
    uint32_t generation = 1;
    std::optional<Entry> entry;
  };
  Quota* const quota_;
  size_t live_ = 0;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

}  // namespace lambent::forward_server
