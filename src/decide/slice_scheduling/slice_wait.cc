#include "decide/slice_scheduling/slice_wait.h"

#include <algorithm>

namespace lambent::slice_scheduling {
namespace {

// Of all slices that others have, most are that function's; the lower id of two.
FunctionId holds_most(const SliceWorld& world, FunctionId self) {
  std::map<FunctionId, size_t> slices;
  for (const auto& [id, instance] : world.instances) {
    if (instance.function != self) slices[instance.function] += instance.placement.slices.size();
  }
  FunctionId most;
  size_t count = 0;
  for (const auto& [function, held] : slices) {
    if (held <= count) continue;
    most = function;
    count = held;
  }
  return most;
}

// Why it has to do without an instance that is unloaded, beside the one on its slice.
WaitCause wait_beside(const SliceWorld& world, const Instance& unloaded) {
  const auto slice = world.slices.find(unloaded.placement.slices.front());
  const Instance* occupant = slice == world.slices.end() ? nullptr : world.occupant(slice->second);
  if (occupant == nullptr) return {SliceWait::kMemoryMoving, {}};
  if (occupant->load_state == LoadState::kUnloading) return {SliceWait::kMemoryMoving, {}};
  return {SliceWait::kSliceShared, occupant->function};
}

}  // namespace

std::string_view name_of(SliceWait reason) {
  switch (reason) {
    case SliceWait::kNone:
      return "none";
    case SliceWait::kOwnQueue:
      return "own_queue";
    case SliceWait::kBehindOthers:
      return "behind_others";
    case SliceWait::kSliceShared:
      return "slice_shared";
    case SliceWait::kNoSlice:
      return "no_slice";
    case SliceWait::kNoDevice:
      return "no_device";
    case SliceWait::kStartPaused:
      return "start_paused";
    case SliceWait::kStarting:
      return "starting";
    case SliceWait::kMemoryMoving:
      return "memory_moving";
  }
  return "none";
}

bool is_queueing(SliceWait reason) {
  return reason != SliceWait::kNone && reason != SliceWait::kStarting &&
         reason != SliceWait::kMemoryMoving;
}

WaitCause wait_of(const SliceWorld& world, const FunctionState& function) {
  if (function.queue.empty()) return {};
  bool open = false, yields = false, moving = false, starting = false;
  const Instance* unloaded = nullptr;
  for (const InstanceId id : function.instances) {
    const Instance& instance = world.instances.at(id);
    if (instance.retiring) continue;
    const bool is_shared = instance.allocation_mode == AllocationMode::kTimeSharing;
    open |= instance.is_open();
    yields |= instance.is_open() && is_shared && instance.jobs == 0;
    moving |= instance.load_state == LoadState::kLoading ||
              (instance.load_state == LoadState::kUnloading && !is_shared);
    starting |= instance.load_state == LoadState::kStarting;
    if (instance.load_state == LoadState::kUnloaded ||
        instance.load_state == LoadState::kUnloading) {
      unloaded = &instance;
    }
  }
  if (yields) return {SliceWait::kBehindOthers, {}};
  if (open) return {SliceWait::kOwnQueue, {}};
  if (moving) return {SliceWait::kMemoryMoving, {}};
  if (starting) return {SliceWait::kStarting, {}};
  if (unloaded != nullptr) return wait_beside(world, *unloaded);
  const bool any = std::any_of(world.slices.begin(), world.slices.end(),
                               [](const auto& slice) { return !slice.second.lost; });
  if (!any) return {SliceWait::kNoDevice, {}};
  if (function.start_again_at > world.now) return {SliceWait::kStartPaused, {}};
  return {SliceWait::kNoSlice, holds_most(world, function.function->id)};
}

void WaitAccounting::add(Totals& totals, const WaitCause& cause, Duration waited) {
  if (waited <= Duration::zero()) return;
  const bool is_full = totals.size() >= kMostCauses && !totals.contains(cause);
  totals[is_full ? WaitCause{cause.reason, {}} : cause] += waited;
}

void WaitAccounting::look(const SliceWorld& world, Instant now) {
  for (const auto& [function, cause] : causes_) add(totals_[function], cause, now - now_);
  now_ = now;
  causes_.clear();
  if (!world.queued.empty()) {
    for (const auto& [id, function] : world.functions) {
      if (!function.queue.empty()) causes_[id] = wait_of(world, function);
    }
  }
  if (totals_.size() > world.functions.size()) {
    std::erase_if(totals_, [&](const auto& each) { return !world.functions.contains(each.first); });
  }
}

WaitAccounting::Totals WaitAccounting::totals(FunctionId function, Instant now) const {
  const auto known = totals_.find(function);
  Totals totals = known == totals_.end() ? Totals{} : known->second;
  const auto waiting = causes_.find(function);
  if (waiting != causes_.end()) add(totals, waiting->second, now - now_);
  return totals;
}

void add_difference(const WaitAccounting::Totals& before, const WaitAccounting::Totals& after,
                    Waits& waits) {
  for (const auto& [cause, total] : after) {
    const auto earlier = before.find(cause);
    // Lower than before: the function was removed meanwhile, and is another one.
    Duration waited = total;
    if (earlier != before.end() && earlier->second <= total) waited -= earlier->second;
    if (waited <= Duration::zero()) continue;
    const auto same = std::find_if(waits.begin(), waits.end(),
                                   [&](const auto& each) { return each.first == cause; });
    if (same != waits.end()) {
      same->second += waited;
    } else {
      waits.emplace_back(cause, waited);
    }
  }
  std::stable_sort(waits.begin(), waits.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
}

WaitCause longest_queueing(const Waits& waits) {
  const auto found = std::find_if(waits.begin(), waits.end(),
                                  [](const auto& each) { return is_queueing(each.first.reason); });
  return found == waits.end() ? WaitCause{} : found->first;
}

}  // namespace lambent::slice_scheduling
