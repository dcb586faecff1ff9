#include "decide/pipeline/isolation.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "decide/pipeline/placing.h"

namespace lambent::pipeline {
namespace {

// Of a device's time, that is left for one more function however busy it is.
constexpr double kLeastRest = 0.01;
// How much of the time another place may take for a change to be worth its start: utilisation, and
// with it what a shared device is thought to take, is never the same twice.
constexpr double kClearGain = 0.8;

std::string ms(Duration duration) {
  char text[48];
  std::snprintf(text, sizeof text, "%.1f ms", to_milliseconds(duration));
  return text;
}
std::string per_cent(double share) { return std::to_string(std::lround(share * 100)) + " %"; }

StageProcess whole_of(const Dag& dag) {
  StageProcess stage_process;
  for (size_t i = 0; i < dag.components.size(); ++i) stage_process.components.push_back(i);
  return stage_process;
}

class Chooser {
 public:
  Chooser(const PipelineFunction& function, const IsolationWish& wish, const TransferCosts& costs)
      : function_(function), wish_(wish), costs_(costs) {}

  // Which slices, and how long it takes there; else a reason is added.
  std::optional<Placement> on_slices(std::span<const Slice> free) {
    if (!wish_.why_not_slices.empty()) return no(wish_.why_not_slices);
    std::vector<Slice> good;
    for (const Slice& slice : free) {
      const bool isolated = (slice.memory_isolated || !wish_.needs_memory_isolation) &&
                            (slice.fault_isolated || !wish_.needs_fault_isolation);
      if (isolated) good.push_back(slice);
    }
    auto placement = best_that_fits(function_, good, costs_);
    if (placement) return placement;
    const std::string needed = what_would_fit(function_);
    return no("no free slices" +
              std::string(good.size() < free.size() ? " that are isolated as it needs" : "") +
              " hold it: it needs " + (needed.empty() ? "a plan first" : needed));
  }

  // How long it takes in the shared runtime; else a reason is added.
  std::optional<Duration> shared(const std::optional<SharedDevice>& device) {
    if (!wish_.why_not_shared.empty()) return no(wish_.why_not_shared);
    if (wish_.needs_fault_isolation) {
      return no("a fault of a shared device may end all who share it");
    }
    if (!device) return no("no device is shared here: all of them are slices of pipelines");
    if (wish_.needs_memory_isolation && !device->memory_isolated) {
      return no("the shared device does not keep its processes' memory apart");
    }
    const StageProcess whole = whole_of(function_.dag);
    const Bytes needed = memory_of(function_, whole);
    if (needed > device->free) {
      return no("the shared device has " + to_string(device->free) +
                " for a function, the function needs " + to_string(needed));
    }
    // One process runs branches one after the other, and neighbours take their part of the time. A
    // device without any left is no reason to refuse: by turns, all functions get some.
    const double alone_s = to_seconds(expected_time(function_, whole, device->shape));
    double others = device->utilisation;
    if (wish_.current == Isolation::kShared) others -= wish_.arrivals_per_s * alone_s;
    const double rest = 1 - std::clamp(others, 0.0, 1 - kLeastRest);
    return from_seconds(alone_s / rest);
  }

  std::vector<std::string> reasons;

 private:
  std::nullopt_t no(std::string why) {
    reasons.push_back(std::move(why));
    return std::nullopt;
  }

  const PipelineFunction& function_;
  const IsolationWish& wish_;
  const TransferCosts& costs_;
};

// Where both are possible: which, and why.
std::pair<Isolation, std::string> decide(const PipelineFunction& function,
                                         const IsolationWish& wish, const Placement& placement,
                                         Duration shared) {
  const std::string both =
      "slices take " + ms(placement.latency) + ", the shared device " + ms(shared);
  const bool has_slices = wish.current == Isolation::kSlices,
             has_shared = wish.current == Isolation::kShared;
  if (function.slo > Duration{}) {
    const bool slices_keep = placement.latency <= function.slo;
    const bool leaves_what_keeps = has_slices && slices_keep;
    const double slo_s = to_seconds(function.slo) * (leaves_what_keeps ? kClearGain : 1);
    const bool shared_keeps = to_seconds(shared) <= slo_s;
    if (slices_keep != shared_keeps) {
      return {slices_keep ? Isolation::kSlices : Isolation::kShared,
              both + ": only one keeps the SLO of " + ms(function.slo) +
                  (leaves_what_keeps ? ", with a fifth of it to spare for a change" : "")};
    }
    if (!slices_keep) {
      const double slices_s = to_seconds(placement.latency);
      const double shared_s = to_seconds(shared);
      const bool shared_is_nearer = has_slices   ? shared_s < kClearGain * slices_s
                                    : has_shared ? shared_s * kClearGain <= slices_s
                                                 : shared_s < slices_s;
      return {shared_is_nearer ? Isolation::kShared : Isolation::kSlices,
              both + ": neither keeps the SLO of " + ms(function.slo) + ", this one is nearer"};
    }
  }
  if (wish.arrivals_per_s <= 0) {
    return {Isolation::kSlices,
            both + "; how much is asked of it is not known, and on slices no neighbour matters"};
  }
  const double busy = wish.arrivals_per_s * to_seconds(placement.bottleneck);
  if (busy >= (has_slices ? kBusyShare / 2 : kBusyShare)) {
    return {Isolation::kSlices, "it would keep its slices busy for " +
                                    per_cent(std::min(busy, 1.0)) +
                                    " of the time, and there no neighbour matters"};
  }
  return {Isolation::kShared, "slices of its own would be busy for " + per_cent(busy) +
                                  " of the time only; on the shared device others use the rest"};
}

}  // namespace

std::string_view name_of(Isolation isolation) {
  return isolation == Isolation::kSlices ? "slices" : "shared";
}

Result<IsolationChoice> choose_isolation(const PipelineFunction& function,
                                         const IsolationWish& wish, std::span<const Slice> free,
                                         const std::optional<SharedDevice>& device,
                                         const TransferCosts& costs) {
  Chooser chooser(function, wish, costs);
  IsolationChoice choice{.placement = chooser.on_slices(free)};
  const std::optional<Duration> shared = chooser.shared(device);
  choice.reasons = std::move(chooser.reasons);
  if (!choice.placement && !shared) {
    return Error{ErrorCode::kResourceExhausted, choice.reasons[0] + "; " + choice.reasons[1]};
  }
  if (choice.placement && shared) {
    auto [isolation, why] = decide(function, wish, *choice.placement, *shared);
    choice.isolation = isolation;
    choice.reasons.push_back(std::move(why));
  } else {
    choice.isolation = choice.placement ? Isolation::kSlices : Isolation::kShared;
  }
  if (choice.isolation == Isolation::kShared) choice.placement.reset();
  choice.latency = choice.placement ? choice.placement->latency : *shared;
  return choice;
}

}  // namespace lambent::pipeline
