// The choice between slices and a shared runtime, for a pipeline function that may have either: its
// components on slices of their own, or all of them as streams of one process on a whole device,
// beside other functions. A pure function, any thread; asked before an instance is started.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "domain/slice.h"
#include "pipeline/function.h"
#include "pipeline/lane_cost.h"

namespace lambent::pipeline {

enum class Isolation {
  kSlices,         // memory and faults of its own; copies over the host between stages
  kSharedRuntime,  // no copies, one context; neighbours share its memory, its faults, its time
};
std::string_view name_of(Isolation isolation);  // "slices", "shared runtime"

// What the function's author allows and wants.
struct IsolationWish {
  bool may_share = true;        // its runtime, with functions that it trusts
  bool may_have_slices = true;  // it is a pipeline that can be cut
  bool needs_memory_isolation = false;
  bool needs_fault_isolation = false;
  double arrivals_per_s = 0;  // expected; 0: nothing is known
};

// A device whose runtime functions share.
struct SharedDevice {
  SliceShape shape;
  Bytes free;                    // of its memory
  double utilisation = 0;        // 0..1, of its multiprocessors by others
  bool memory_isolated = false;  // whether its clients' memory is kept apart
};

struct IsolationChoice {
  Isolation isolation = Isolation::kSlices;
  std::optional<Placement> placement;  // of slices
  Duration latency{};                  // of one request alone, beside what else runs there
  std::vector<std::string> reasons;    // sentences, what decided last; without full stops
};

// Of what is allowed, is isolated as it must be, and has room now: what keeps the SLO; of both, the
// slices if the function would keep them busy for kBusyShare of the time and more, and else the
// shared runtime, which takes no more than is used. Without arrivals known: slices, for what is
// promised there does not depend on neighbours. RESOURCE_EXHAUSTED with the reasons if neither.
constexpr double kBusyShare = 0.3;
Result<IsolationChoice> choose_isolation(const PipelineFunction& function,
                                         const IsolationWish& wish, std::span<const Slice> free,
                                         const std::optional<SharedDevice>& device,
                                         const TransferCosts& costs);

}  // namespace lambent::pipeline
