#include "decide/slice_scheduling/world.h"

#include <algorithm>

namespace lambent::slice_scheduling {
namespace {

// How long before the end of its job an instance of one process is given the next: what it takes to
// bring its input in, and as much as the end may be off. What is given earlier waits there instead
// of where the most urgent comes first.
constexpr Duration kAhead = milliseconds(5);
constexpr int64_t kAheadShare = 32;  // of what a job takes

}  // namespace

Duration Instance::scaled(Duration profiled) const {
  return Duration(static_cast<int64_t>(static_cast<double>(profiled.count()) * pace));
}

Duration Instance::latency_of(size_t job_requests) const {
  if (placement.batches.empty()) return latency() * static_cast<int64_t>(job_requests);
  return scaled(placement.latency_of(job_requests));
}

Duration Instance::bottleneck_of(size_t job_requests) const {
  if (placement.batches.empty()) return bottleneck() * static_cast<int64_t>(job_requests);
  return scaled(placement.bottleneck_of(job_requests));
}

Instant Instance::finish_of(size_t job_requests, Instant now) const {
  return std::max(now, busy_until) + latency_of(job_requests);
}

size_t Instance::most_jobs() const {
  if (!is_pipeline() || placement.bottleneck <= Duration::zero()) return 1;
  return 1 + static_cast<size_t>(placement.latency / placement.bottleneck);
}

bool Instance::has_place(Instant now) const { return jobs < most_jobs() || ahead_at() <= now; }

Instant Instance::ahead_at() const {
  if (is_pipeline() || jobs != 1) return kNever;
  return busy_until - std::min(kAhead + bottleneck() / kAheadShare, busy_until - Instant{});
}

const Instance* SliceWorld::find(InstanceId id) const {
  const auto found = instances.find(id);
  return found == instances.end() ? nullptr : &found->second;
}

const Instance* SliceWorld::sharing_instance(const FunctionState& function) const {
  for (const InstanceId id : function.instances) {
    const Instance& instance = instances.at(id);
    if (instance.allocation_mode == AllocationMode::kTimeSharing && !instance.retiring)
      return &instance;
  }
  return nullptr;
}

const Instance* SliceWorld::occupant(const SliceState& slice) const {
  for (const InstanceId id : slice.sharing) {
    const Instance& instance = instances.at(id);
    if (instance.on_slices) return &instance;
  }
  return nullptr;
}

const FunctionState* SliceWorld::find(FunctionId id) const {
  const auto found = functions.find(id);
  return found == functions.end() ? nullptr : &found->second;
}

std::vector<Slice> SliceWorld::free_slices() const {
  std::vector<Slice> free;
  for (const auto& [id, state] : slices) {
    if (state.is_free()) free.push_back(state.slice);
  }
  return free;
}

bool SliceWorld::rests(DeviceId slice) const {
  const auto found = slices.find(slice);
  if (found == slices.end() || found->second.start_again_at <= now) return false;
  return std::any_of(slices.begin(), slices.end(), [&](const auto& each) {
    return !each.second.lost && each.second.start_again_at <= now;
  });
}

std::vector<Slice> SliceWorld::rested(std::span<const Slice> some) const {
  std::vector<Slice> rested;
  for (const Slice& slice : some) {
    if (!rests(slice.id)) rested.push_back(slice);
  }
  return rested;
}

}  // namespace lambent::slice_scheduling
