// The choice between slices and a shared device, for a pipeline function that may have either: its
// components on slices of their own, or all of them in one process on a device that it shares with
// all other functions (docs/decisions/0021-isolation.md). A pure function, any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/domain/slice.h"
#include "decide/pipeline/function.h"
#include "decide/pipeline/stage_process_cost.h"

namespace lambent::pipeline {

enum class Isolation {
  kSlices,  // memory and faults of its own; copies over the host between stages
  kShared,  // no copies, one context; neighbours have part of the device's memory and time
};
std::string_view name_of(Isolation isolation);  // "slices", "shared"

// What the function's author allows and wants.
struct IsolationWish {
  std::string why_not_shared;  // a sentence; empty: it may share a device
  std::string why_not_slices;  // empty: it may have slices
  bool needs_memory_isolation = false;
  bool needs_fault_isolation = false;
  double arrivals_per_s = 0;  // expected; 0: nothing is known
  // What it has, which is not left for a little: a change costs a start.
  std::optional<Isolation> current;
};

// A device that functions share by turns.
struct SharedDevice {
  SliceShape shape;
  Bytes free;                    // of its memory, for one function and its context
  double utilisation = 0;        // 0..1, of its time; by the function too, if it has it now
  bool memory_isolated = false;  // whether its processes' memory is kept apart
};

struct IsolationChoice {
  Isolation isolation = Isolation::kSlices;
  std::optional<Placement> placement;  // of slices
  Duration latency{};                  // of a single request, beside what else runs there
  std::vector<std::string> reasons;    // sentences, what decided last; without full stops
};

// Of what is allowed, is isolated as it must be, and has room now: what keeps the SLO; of both, the
// slices if the function would keep them busy for kBusyShare of the time and more (half of that, if
// it has them), and else the shared device, of which it takes no more than it uses. Without
// arrivals known: slices, for what is promised there does not depend on neighbours.
// RESOURCE_EXHAUSTED with the reasons if neither.
constexpr double kBusyShare = 0.3;
Result<IsolationChoice> choose_isolation(const PipelineFunction& function,
                                         const IsolationWish& wish, std::span<const Slice> free,
                                         const std::optional<SharedDevice>& device,
                                         const TransferCosts& costs);

}  // namespace lambent::pipeline
