// SliceDispatcher: pipeline functions on slices, as a state machine: an event in, actions out. It
// keeps the accounting and sees that every request is completed once; a SlicePolicy decides. Used
// by the worker on its loop thread, by the simulator and by tests.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "decide/slice_scheduling/events.h"
#include "decide/slice_scheduling/policy.h"
#include "decide/slice_scheduling/world.h"

namespace lambent::slice_scheduling {

struct SliceDispatcherOptions {
  Duration window = seconds(1);  // of utilisation and arrivals
  unsigned most_attempts = 3;    // instances that may end under a request before it fails
  size_t most_queued = 10'000;   // of one function; more are RESOURCE_EXHAUSTED
};

class SliceDispatcher {
 public:
  SliceDispatcher(std::unique_ptr<SlicePolicy> policy, SliceDispatcherOptions options);
  ~SliceDispatcher();
  SliceDispatcher(const SliceDispatcher&) = delete;
  SliceDispatcher& operator=(const SliceDispatcher&) = delete;

  // Appends what is to be done. `now` never runs backwards.
  void handle(const Event& event, Instant now, std::vector<Action>& actions);

  const SliceWorld& world() const;
  std::string_view policy_name() const;
  // Decisions that were impossible, and events after which the policy came to no end: bugs of the
  // policy, which are passed over. What was wrong the last time; empty if nothing ever was.
  uint64_t policy_errors() const;
  const std::string& last_policy_error() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lambent::slice_scheduling
