#include "executor/device_answer.h"

namespace lambent::executor {

// The exchange is the last touch: who looks may let go of the request at once.
bool DeviceAnswer::tell(CUresult result) {
  result_ = result;
  return state_.exchange(kTold, std::memory_order_acq_rel) == kPosts;
}

std::optional<CUresult> DeviceAnswer::look(forwarding::SpinBudget& budget) {
  State seen = kPosts;
  if (!state_.compare_exchange_strong(seen, kLooks, std::memory_order_acq_rel)) return {};
  const uint32_t most = budget.steps();
  for (uint32_t step = 1; step <= most; ++step) {
    forwarding::pause_briefly();
    if (state_.load(std::memory_order_acquire) != kTold) continue;
    budget.came_after(step);
    return result_;
  }
  budget.did_not_come();
  seen = kLooks;
  if (state_.compare_exchange_strong(seen, kPosts, std::memory_order_acq_rel)) return {};
  return result_;
}

}  // namespace lambent::executor
