#include "decide/dispatch/gangs.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "decide/scheduling/hung_sandboxes.h"

namespace lambent::dispatch {

using scheduling::Flow;
using scheduling::GangPlaces;
using scheduling::WaitReason;

namespace {

GangPlaces::Wanted wanted_by(FunctionId function, const Flow& flow) {
  return {.function = function,
          .count = flow.gpu_count,
          .memory = flow.device_memory,
          .on_reserved = true};
}

}  // namespace

void Gangs::registered(FunctionId function) {
  const bool takes_several = flows_[function.value].gpu_count > 1;
  const auto place = std::lower_bound(functions_.begin(), functions_.end(), function);
  const bool is_known = place != functions_.end() && *place == function;
  any_ever_ |= takes_several;
  if (takes_several && !is_known) functions_.insert(place, function);
  if (takes_several || !is_known) return;
  functions_.erase(place);
  if (function_ == function) release();
}

Duration Gangs::grace_period_of(const Flow& flow) {
  return std::clamp(flow.execution.mean_or(kFirstGracePeriod), kLeastGracePeriod, kMostGracePeriod);
}

// For devices, and not for its own limits or for its own run that is at work.
bool Gangs::waits(const Flow& flow) const {
  return flow.registered && flow.pending > 0 && flow.in_flight == 0 && flow.max_concurrency > 0 &&
         tenants_.hold_of(flow) == WaitReason::kNone;
}

bool Gangs::is_due(FunctionId function) const {
  const Flow& flow = flows_[function.value];
  return waits(flow) && log_.now() >= flow.oldest_since + grace_period_of(flow) &&
         !pools_.gpu.fleet().device_table().pool_is_full() &&
         !pools_.gpu.scheduler().is_throttled(function);
}

void Gangs::look_at_all() {
  if (admission_.draining() || !pools_.gpu.scheduler().policy().places_gangs()) return release();
  if (reserved_ != 0 && !stands()) release();
  if (reserved_ != 0 && !dispatch(function_)) return;
  std::vector<FunctionId> due;
  std::copy_if(functions_.begin(), functions_.end(), std::back_inserter(due),
               [this](FunctionId function) { return is_due(function); });
  std::stable_sort(due.begin(), due.end(), [this](FunctionId one, FunctionId other) {
    return flows_[one.value].oldest_since < flows_[other.value].oldest_since;
  });
  for (const FunctionId function : due) {
    const Flow& flow = flows_[function.value];
    if (!is_due(function) || dispatch(function)) continue;
    const uint64_t devices =
        pools_.gpu.fleet().places().gangs().to_reserve(wanted_by(function, flow));
    if (devices == 0) continue;
    function_ = function;
    reserved_ = devices;
    ++reservations_;
    pools_.gpu.fleet().reserve(devices);
    return;
  }
}

bool Gangs::dispatch(FunctionId function) {
  const auto found = pools_.gpu.fleet().places().find_on_reserved(function, flows_[function.value]);
  if (!found.place) return false;
  release();
  placements_.dispatch(pools_.gpu, scheduling::Decision::to(function, *found.place));
  return true;
}

// Whether its devices can still become what it waits for.
bool Gangs::stands() const {
  const Flow& flow = flows_[function_.value];
  bool stands = is_due(function_);
  const scheduling::Fleet& fleet = pools_.gpu.fleet();
  scheduling::for_each_device_in(reserved_, [&](uint32_t index) {
    stands = stands && may_come_free(
                           fleet.devices()[index], index, flow.device_memory,
                           fleet.all(), [&](scheduling::SandboxSlot slot) -> const auto& {
                             return fleet.sandbox(slot);
                           });
  });
  return stands && static_cast<unsigned>(std::popcount(reserved_)) == flow.gpu_count;
}

void Gangs::release() {
  if (reserved_ == 0) return;
  reserved_ = 0;
  function_ = {};
  pools_.gpu.fleet().reserve(0);
}

Instant Gangs::next_look(Instant earliest) const {
  for (const FunctionId function : functions_) {
    const Flow& flow = flows_[function.value];
    if (!waits(flow)) continue;
    const Instant turn = flow.oldest_since + grace_period_of(flow);
    if (turn > log_.now()) earliest = std::min(earliest, turn);
  }
  return earliest;
}

// ---- As bytes

void Gangs::archive(StateArchive& archive) {
  archive.field(function_);
  archive.field(reservations_);
  if (!archive.reading() || !archive.ok()) return;
  reserved_ = pools_.gpu.fleet().device_table().reserved();
  archive.expect(reserved_ == 0 ||
                 (function_.value < flows_.size() && flows_[function_.value].gpu_count > 1));
  any_ever_ = true;
  functions_.clear();
  for (uint32_t id = 0; id < flows_.size(); ++id) {
    if (flows_[id].gpu_count > 1) functions_.push_back(FunctionId{id});
  }
}

}  // namespace lambent::dispatch
