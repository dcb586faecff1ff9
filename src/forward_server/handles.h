// HandleTable: what a client's process may name by number. A number is good for one entry only: a
// stale or invented one finds nothing. A resource of one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace lambent::forward_server {

template <typename Entry>
class HandleTable {
 public:
  explicit HandleTable(size_t most) : most_(most) {}

  // 0 if the table is full.
  uint64_t add(Entry entry) {
    uint32_t index = 0;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else {
      if (slots_.size() == most_) return 0;
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
  size_t size() const { return slots_.size() - free_.size(); }

 private:
  // Programs take handles for pointers: aligned, and never one of the driver's small constants.
  static constexpr int kShift = 4;
  static constexpr uint32_t kLastGeneration = uint32_t{1} << 15;

  struct Slot {
    uint32_t generation = 1;
    std::optional<Entry> entry;
  };
  size_t most_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

}  // namespace lambent::forward_server
