// The part of SliceDispatcher that knows instances: who has which slice, which jobs run where, and
// what is learnt from them.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "decide/slice_scheduling/slice_dispatcher_state.h"

namespace lambent::slice_scheduling {
namespace {

// How much one job moves what is believed of an instance's pace.
constexpr double kPaceWeight = 0.2;
constexpr double kLeastPace = 0.1;
constexpr double kMostPace = 20;
// Of slices on which a start failed: after the first; doubled by each that follows.
constexpr Duration kFirstRest = seconds(5);
constexpr Duration kLongestRest = std::chrono::minutes(5);

}  // namespace

Instance* SliceDispatcher::State::find(InstanceId id) {
  const auto found = world.instances.find(id);
  return found == world.instances.end() ? nullptr : &found->second;
}

void SliceDispatcher::State::apply(const Start& decision) {
  const InstanceId id{++last_instance};
  world.instances.emplace(id, Instance{.id = id,
                                       .function = decision.function,
                                       .placement = decision.placement,
                                       .allocation_mode = decision.allocation_mode,
                                       .started = now,
                                       .last_used = now,
                                       .busy_until = now});
  records.try_emplace(id);
  world.functions.at(decision.function).instances.push_back(id);
  for (const DeviceId slice : decision.placement.slices) {
    SliceState& state = world.slices.at(slice);
    if (decision.allocation_mode == AllocationMode::kExclusive) {
      state.exclusive = id;
    } else {
      state.sharing.push_back(id);
    }
  }
  ++world.slices_version;
  act(StartInstance{id, decision.function, decision.placement});
}

void SliceDispatcher::State::apply(const Retire& decision) {
  retire(world.instances.at(decision.instance));
}

void SliceDispatcher::State::apply(const ChangeAllocationMode& decision) {
  Instance& instance = world.instances.at(decision.instance);
  SliceState& slice = world.slices.at(instance.placement.slices.front());
  if (decision.allocation_mode == AllocationMode::kExclusive) {
    slice.exclusive = instance.id;
    slice.sharing.clear();
    instance.allocation_mode = AllocationMode::kExclusive;
    ++world.slices_version;
    return;
  }
  for (const DeviceId each : instance.placement.slices) world.slices.at(each).exclusive.reset();
  slice.sharing.push_back(instance.id);
  instance.allocation_mode = AllocationMode::kTimeSharing;
  ++world.slices_version;
}

void SliceDispatcher::State::apply(const Unload& decision) {
  world.instances.at(decision.instance).load_state = LoadState::kUnloading;
  act(UnloadInstance{decision.instance});
}

void SliceDispatcher::State::apply(const Load& decision) {
  Instance& instance = world.instances.at(decision.instance);
  instance.load_state = LoadState::kLoading;
  instance.on_slices = true;
  act(LoadInstance{decision.instance});
}

void SliceDispatcher::State::apply(const Assign& decision) {
  Instance& instance = world.instances.at(decision.instance);
  std::vector<QueuedRequest> together;
  const auto give_together = [&] {
    if (!together.empty()) give(instance, std::exchange(together, {}), false);
  };
  for (const InvocationId id : decision.requests) {
    QueuedRequest request = take(id);
    if (request.attempts == 0) {
      together.push_back(std::move(request));
      continue;
    }
    // An instance ended under it: if another does, it is to be known whether it was this one.
    give_together();
    give(instance, {std::move(request)}, true);
  }
  give_together();
}

void SliceDispatcher::State::give(Instance& instance, std::vector<QueuedRequest> requests,
                                  bool alone) {
  const JobId id{++last_job};
  std::vector<InvocationId> ids;
  for (const QueuedRequest& request : requests) {
    ids.push_back(request.id);
    running.emplace(request.id, id);
  }
  Job job{.instance = instance.id,
          .requests = std::move(requests),
          .given = now,
          .expected = instance.finish_of(ids.size(), now) - now};
  jobs.emplace(id, std::move(job));
  records.at(instance.id).jobs.push_back(id);
  ++instance.jobs;
  instance.requests += ids.size();
  instance.last_used = now;
  const Duration work = instance.bottleneck_of(ids.size());
  instance.busy_until = std::max(now, instance.busy_until) + work;
  instance.busy += work;
  instance.given.add(to_seconds(work), now);
  window_moves = true;
  act(GiveJob{id, instance.id, std::move(ids), alone});
}

void SliceDispatcher::State::on(const JobFinished& event) {
  const auto found = jobs.find(event.job);
  if (found == jobs.end()) return;
  const Job job = std::move(found->second);
  jobs.erase(found);
  Instance& instance = world.instances.at(job.instance);
  std::erase(records.at(job.instance).jobs, event.job);
  --instance.jobs;
  instance.requests -= job.requests.size();
  instance.last_used = now;
  learn_pace(instance, job, event.execution);
  if (!instance.is_pipeline() || (instance.jobs == 0 && instance.busy_until > now)) {
    // What it has left, it begins with now.
    Instant until = now;
    for (const JobId left : records.at(job.instance).jobs) {
      until += instance.bottleneck_of(jobs.at(left).requests.size());
    }
    instance.busy += until - std::max(now, instance.busy_until);
    instance.busy_until = until;
  }
  for (const QueuedRequest& request : job.requests) {
    running.erase(request.id);
    complete(request.id, std::nullopt);
  }
  policy->finished(instance, job.requests.size(), event.execution);
  stop_if_idle(instance);
}

void SliceDispatcher::State::learn_pace(Instance& instance, const Job& job, Duration execution) {
  if (job.expected <= Duration::zero()) return;
  const double ratio = to_seconds(execution) / to_seconds(job.expected);
  const double learnt = instance.pace * (1 + kPaceWeight * (std::clamp(ratio, 0.1, 10.0) - 1));
  instance.pace = std::clamp(learnt, kLeastPace, kMostPace);
}

void SliceDispatcher::State::on(const InstanceReady& event) {
  Instance* instance = find(event.instance);
  if (instance == nullptr) return;
  if (instance->load_state == LoadState::kStarting) {
    if (FunctionState* function = find(instance->function); function && !instance->retiring) {
      function->failed_starts = 0;
      function->start_again_at = Instant{};
    }
    for (const DeviceId id : instance->placement.slices) {
      SliceState& slice = world.slices.at(id);
      slice.failed_starts = 0;
      slice.start_again_at = Instant{};
    }
    instance->ready = now;
  } else if (instance->load_state != LoadState::kLoading) {
    return;
  }
  instance->load_state = LoadState::kLoaded;
  instance->loaded = now;
  instance->last_used = now;
  stop_if_idle(*instance);
}

void SliceDispatcher::State::on(const InstanceUnloaded& event) {
  Instance* instance = find(event.instance);
  if (instance == nullptr || instance->load_state != LoadState::kUnloading) return;
  instance->load_state = LoadState::kUnloaded;
  instance->on_slices = false;
  stop_if_idle(*instance);
}

void SliceDispatcher::State::on(const InstanceEnding& event) {
  Instance* instance = find(event.instance);
  if (instance == nullptr) return;
  Record& record = records.at(event.instance);
  if (!instance->retiring) record.ends_unasked = true;
  record.ending = true;
  instance->retiring = true;
}

void SliceDispatcher::State::on(const InstanceEnded& event) {
  const auto found = world.instances.find(event.instance);
  if (found == world.instances.end()) return;
  const Instance ended = std::move(found->second);
  world.instances.erase(found);
  leave_slices(ended);
  FunctionState* function = find(ended.function);
  if (function != nullptr) std::erase(function->instances, ended.id);
  const Record record = std::move(records.at(ended.id));
  records.erase(ended.id);
  for (const JobId id : record.jobs) {
    const Job job = std::move(jobs.at(id));
    jobs.erase(id);
    const auto& blamed = event.blamed;
    const bool counts = !blamed || std::find(blamed->begin(), blamed->end(), id) != blamed->end();
    for (const QueuedRequest& request : job.requests) {
      running.erase(request.id);
      put_back(request, ended.function, event.error, counts);
    }
  }
  const bool wanted = (!ended.retiring || record.ends_unasked) && !world.draining;
  if (function != nullptr && wanted && ended.load_state == LoadState::kStarting) {
    rest(ended.placement.slices);
    count_failed_start(*function, event.error);
  }
}

void SliceDispatcher::State::rest(const std::vector<DeviceId>& slices) {
  for (const DeviceId id : slices) {
    const auto found = world.slices.find(id);
    if (found == world.slices.end()) continue;
    SliceState& slice = found->second;
    const unsigned doublings = std::min(slice.failed_starts++, 16U);
    slice.start_again_at = now + std::min(kLongestRest, kFirstRest * (1 << doublings));
  }
}

void SliceDispatcher::State::leave_slices(const Instance& instance) {
  for (const DeviceId id : instance.placement.slices) {
    const auto found = world.slices.find(id);
    CHECK(found != world.slices.end(), "a slice that an instance has exists");
    SliceState& state = found->second;
    if (state.exclusive == instance.id) state.exclusive.reset();
    std::erase(state.sharing, instance.id);
    if (!state.stays() && !state.exclusive && state.sharing.empty()) world.slices.erase(found);
  }
  ++world.slices_version;
}

void SliceDispatcher::State::retire(Instance& instance) {
  instance.retiring = true;
  records.at(instance.id).ends_unasked = false;
  stop_if_idle(instance);
}

void SliceDispatcher::State::retire_all(FunctionState& function) {
  for (const InstanceId id : function.instances) retire(world.instances.at(id));
}

void SliceDispatcher::State::stop_if_idle(Instance& instance) {
  if (!instance.retiring || instance.jobs > 0 || records.at(instance.id).ending) return;
  if (instance.load_state != LoadState::kLoaded && instance.load_state != LoadState::kUnloaded) {
    return;  // what it was asked for is answered first
  }
  for (const DeviceId id : instance.placement.slices) {
    if (world.slices.at(id).lost) return;  // the host ends it unasked
  }
  instance.load_state = LoadState::kStopping;
  act(StopInstance{instance.id});
}

}  // namespace lambent::slice_scheduling
