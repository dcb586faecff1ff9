// DeviceAnswer: how the loop thread hears that the device has done what was queued: the driver's
// thread posts to it, or finds it looking, which saves both a wake-up. One for each request.
#pragma once

#include <atomic>
#include <optional>

#include "cuda/driver.h"
#include "forwarding/waiting.h"

namespace lambent::executor {

class DeviceAnswer {
 public:
  // The loop thread, before it asks the driver to call back.
  void expect() { state_.store(kPosts, std::memory_order_relaxed); }
  // The driver's thread: whether the loop has to be posted to. If not, nothing of this may be
  // touched afterwards.
  bool tell(CUresult result);
  // The loop thread: spins for as long as that has paid lately. None if nothing is expected, or if
  // it will be posted.
  std::optional<CUresult> look(forwarding::SpinBudget& budget);

 private:
  enum State { kNothing, kPosts, kLooks, kTold };

  std::atomic<State> state_{kNothing};
  CUresult result_ = CUDA_SUCCESS;
};

}  // namespace lambent::executor
