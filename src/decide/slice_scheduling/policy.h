// SlicePolicy: who decides which instances there are, on which slices, and who serves which
// request. Pure apart from its own memory; asked by SliceDispatcher on the thread that handles
// events.
#pragma once

#include <memory>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/result.h"
#include "decide/slice_scheduling/world.h"

namespace lambent::slice_scheduling {

// Requests of one function, all queued, to an instance of it that is loaded and not retiring.
struct Assign {
  std::vector<InvocationId> requests;
  InstanceId instance;
};
// On slices that are free, or (time sharing, one slice) on one that others share.
struct Start {
  FunctionId function;
  pipeline::Placement placement;
  AllocationMode allocation_mode = AllocationMode::kExclusive;
};
// No more jobs; stopped as soon as it is idle.
struct Retire {
  InstanceId instance;
};
// From one allocation mode to the other; to exclusive only if it is loaded and no other shares its
// slice.
struct ChangeAllocationMode {
  InstanceId instance;
  AllocationMode allocation_mode = AllocationMode::kExclusive;
};
// A time-sharing instance that is idle gives up its slice; one that is unloaded takes it.
struct Unload {
  InstanceId instance;
};
struct Load {
  InstanceId instance;
};
// It cannot be served; the error says what would have to be free.
struct Refuse {
  InvocationId request;
  Error error;
};
// Be asked again then, whatever happens before.
struct AskAgain {
  Instant when;
};

using Decision =
    std::variant<Assign, Start, Retire, ChangeAllocationMode, Unload, Load, Refuse, AskAgain>;

class SlicePolicy {
 public:
  virtual ~SlicePolicy() = default;
  virtual std::string_view name() const = 0;
  // What is to be done now; each must be possible after those before it
  // (one that is not is passed over). Asked after each event,
  // again until nothing comes but AskAgain.
  virtual void decide(const SliceWorld& world, Instant now, std::vector<Decision>& decisions) = 0;
  // Whether it reads what is kept in windows, so that it is asked at the end of each.
  virtual bool reads_windows() const { return true; }
  // A request for this function came. Called before it is queued, or turned away.
  virtual void arrived(const FunctionState& function, Instant now) { (void)function, (void)now; }
  // A job of this instance took so long; for policies that learn.
  virtual void finished(const Instance& instance, size_t requests, Duration execution) {
    (void)instance, (void)requests, (void)execution;
  }
};

}  // namespace lambent::slice_scheduling
