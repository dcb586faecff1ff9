// WorkingSet: which blocks the calls of a program have named recently, and in what order. A stay is
// the time from one move in to the next move out; a block that no call named in the last stays, nor
// can have reached through other memory, need not come in with the rest. Decides, calls no driver.
// Not synchronised; without the C++ library.
#pragma once

#include <stdint.h>

#include "gpu/device_memory/allocations.h"

namespace lambent::device_memory {

class WorkingSet {
 public:
  // A block belongs to the set until so many stays have ended in which it was not named. What a
  // program does to begin with (it fills its memory, which names all of it) is forgotten then.
  static constexpr uint64_t kRememberedStays = 2;

  // A new block is touched by being made.
  void add(Block* block) {
    ++changes_;
    touch(block);
  }
  // A call names memory of this block.
  void touch(Block* block) {
    is_used_ = true;
    if (block->last_touch == stay_) return;
    block->last_touch = stay_;
    block->turn = ++touches_;
  }
  // Whether the one is to come in before the other where not both can: what was used in a later
  // stay, and there what was used first.
  static bool comes_before(const Block& one, const Block& other) {
    if (one.last_touch != other.last_touch) return one.last_touch > other.last_touch;
    return one.turn < other.turn;
  }
  // Memory was written in which this block's address stands: code that reads that reaches the
  // block, and no call will say so.
  void note_reference(Block* block) { block->is_referenced = true; }
  // A call of which it is not known what it reaches.
  void touch_anything() {
    is_used_ = true;
    last_touch_of_anything_ = stay_;
  }

  // Until this changes, what was touched once need not be touched again, and what is not
  // offloaded is not offloaded later.
  uint64_t changes() const { return changes_; }

  bool holds(const Block& block) const {
    return block.is_referenced || is_recent(block.last_touch) || is_recent(last_touch_of_anything_);
  }

  // The memory has moved out. A stay in which nothing was done says nothing.
  void end_stay() {
    if (is_used_) ++stay_;
    ++changes_;
    is_used_ = false;
    fetches_ = 0;
  }

  // A call that names a block which is offloaded has it fetched, until that was once impossible in
  // this stay: every attempt holds the program up.
  bool may_fetch() const { return last_refusal_ != stay_; }
  void refuse_fetches() { last_refusal_ = stay_; }
  // Where the driver must not see on which side memory lies, a fetch is tried again and again,
  // until that was once given up in this stay.
  bool may_retry() const { return last_giving_up_ != stay_; }
  void give_up() { last_giving_up_ = stay_; }
  // No move has offloaded anything before what was used in the first stay can be forgotten.
  bool can_have_offload() const { return stay_ > kRememberedStays; }
  // After so many fetches in one stay all is fetched at once, for the program has begun to do
  // something else. What was wanted in vain was no fetch.
  static constexpr int kMostFetches = 4;
  void want_fetch() {
    if (fetches_ >= kMostFetches) touch_anything();
  }
  void count_fetch() { ++fetches_; }

 private:
  bool is_recent(uint64_t stay) const { return stay != 0 && stay + kRememberedStays > stay_; }

  uint64_t stay_ = 1;
  uint64_t last_touch_of_anything_ = 0;
  uint64_t last_refusal_ = 0;
  uint64_t last_giving_up_ = 0;
  uint64_t touches_ = 0;
  uint64_t changes_ = 1;
  int fetches_ = 0;  // in this stay
  bool is_used_ = false;
};

}  // namespace lambent::device_memory
