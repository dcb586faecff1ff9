#include "core/loop/timer_heap.h"

#include <utility>

namespace lambent::loop {

uint64_t TimerHeap::add(Instant due, Task task) {
  uint32_t index;
  if (free_slots_.empty()) {
    index = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    index = free_slots_.back();
    free_slots_.pop_back();
  }
  Slot& slot = slots_[index];
  slot.task = std::move(task);
  if (++slot.generation == 0) slot.generation = 1;
  used_++;
  heap_.emplace_back();
  move_up({due, next_sequence_++, index}, static_cast<uint32_t>(heap_.size() - 1));
  return uint64_t{slot.generation} << 32 | index;
}

TimerHeap::Task TimerHeap::take(uint64_t handle) {
  const auto index = static_cast<uint32_t>(handle);
  if (index >= slots_.size()) return {};
  Slot& slot = slots_[index];
  if (slot.position == kFree || slot.generation != handle >> 32) return {};
  if (slot.position != kCollected) remove_from_heap(slot.position);
  slot.position = kFree;
  free_slots_.push_back(index);
  used_--;
  return std::exchange(slot.task, nullptr);
}

void TimerHeap::collect_due(Instant now, std::vector<uint64_t>& due) {
  while (!heap_.empty() && heap_.front().due <= now) {
    const uint32_t index = heap_.front().slot;
    remove_from_heap(0);
    slots_[index].position = kCollected;
    due.push_back(uint64_t{slots_[index].generation} << 32 | index);
  }
}

Instant TimerHeap::next() const { return heap_.empty() ? kNever : heap_.front().due; }

TimerHeap::Task TimerHeap::take_any() {
  for (uint32_t index = 0; index < slots_.size(); index++) {
    if (slots_[index].position != kFree) {
      return take(uint64_t{slots_[index].generation} << 32 | index);
    }
  }
  return {};
}

void TimerHeap::place(const Entry& entry, uint32_t position) {
  heap_[position] = entry;
  slots_[entry.slot].position = position;
}

void TimerHeap::move_up(Entry entry, uint32_t position) {
  while (position > 0) {
    const uint32_t parent = (position - 1) / 2;
    if (!before(entry, heap_[parent])) break;
    place(heap_[parent], position);
    position = parent;
  }
  place(entry, position);
}

void TimerHeap::move_down(Entry entry, uint32_t position) {
  for (;;) {
    uint32_t child = 2 * position + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) child++;
    if (!before(heap_[child], entry)) break;
    place(heap_[child], position);
    position = child;
  }
  place(entry, position);
}

void TimerHeap::remove_from_heap(uint32_t position) {
  const Entry last = heap_.back();
  heap_.pop_back();
  if (position == heap_.size()) return;
  if (position > 0 && before(last, heap_[(position - 1) / 2])) {
    move_up(last, position);
  } else {
    move_down(last, position);
  }
}

}  // namespace lambent::loop
