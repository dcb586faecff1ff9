// TimerHeap: tasks by the instant at which they are due; a binary heap that knows where each timer
// sits, so that cancelling one really removes it. Used by EventLoop on its own thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/time.h"

namespace lambent::loop {

class TimerHeap {
 public:
  using Task = std::function<void()>;

  // A handle that is never 0 and is not given out again while the program lives (in practice).
  uint64_t add(Instant due, Task task);
  // Removes the timer and gives its task back; empty if the handle is not (or no longer) known.
  Task take(uint64_t handle);
  // Moves the handles of all timers due at `now` to `due`, earliest first, equal ones in the order
  // in which they were added. They stay known to take().
  void collect_due(Instant now, std::vector<uint64_t>& due);
  // The earliest instant in the heap; kNever if there is none.
  Instant next() const;
  bool empty() const { return used_ == 0; }
  // Any one task still known, removed; for tearing down.
  Task take_any();

 private:
  struct Slot {
    Task task;
    uint32_t generation = 0;
    uint32_t position = kFree;
  };
  struct Entry {
    Instant due;
    uint64_t sequence;
    uint32_t slot;
  };
  static constexpr uint32_t kFree = UINT32_MAX;
  static constexpr uint32_t kCollected = UINT32_MAX - 1;

  static bool before(const Entry& a, const Entry& b) {
    return a.due != b.due ? a.due < b.due : a.sequence < b.sequence;
  }
  void place(const Entry& entry, uint32_t position);
  void move_up(Entry entry, uint32_t position);
  void move_down(Entry entry, uint32_t position);
  void remove_from_heap(uint32_t position);

  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  std::vector<Entry> heap_;
  uint64_t next_sequence_ = 0;
  size_t used_ = 0;
};

}  // namespace lambent::loop
