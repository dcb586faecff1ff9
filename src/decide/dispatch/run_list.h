// RunList: the invocations that are at work, in an order that means nothing: after a restore it is
// another. A value; kept by Dispatcher, for what reckons with all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "decide/dispatch/invocation_table.h"

namespace lambent::dispatch {

// One that ends leaves a gap, so that there is no search for it and nothing moves; gaps are closed
// when they are more than half of the list.
class RunList {
 public:
  void clear() {
    order_.clear();
    gaps_ = 0;
  }

  // At the end; it must not be there yet.
  void add(InvocationSlot slot) {
    if (slot >= place_.size()) place_.resize(slot + 1);
    place_[slot] = static_cast<uint32_t>(order_.size());
    order_.push_back(slot);
  }

  // Nothing if it is not there.
  void erase(InvocationSlot slot) {
    if (slot >= place_.size() || place_[slot] >= order_.size() || order_[place_[slot]] != slot) {
      return;
    }
    order_[place_[slot]] = kNoInvocation;
    ++gaps_;
    if (2 * gaps_ > order_.size()) close_gaps();
  }

  // The list must not change meanwhile.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const InvocationSlot slot : order_) {
      if (slot != kNoInvocation) visit(slot);
    }
  }

 private:
  void close_gaps() {
    std::erase(order_, kNoInvocation);
    for (uint32_t i = 0; i < order_.size(); ++i) place_[order_[i]] = i;
    gaps_ = 0;
  }

  std::vector<InvocationSlot> order_;
  size_t gaps_ = 0;
  std::vector<uint32_t> place_;  // by slot
};

}  // namespace lambent::dispatch
