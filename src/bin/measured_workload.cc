#include "bin/measured_workload.h"

#include <algorithm>

#include "sim/workload/limits.h"

namespace lambent::bin {

using namespace dispatch;

void RunOutcomes::add(const CompleteInvocation& outcome) {
  if (outcome.outcome != Outcome::kSucceeded) ++failed;
  if (outcome.outcome == Outcome::kRejected) return;
  latencies_s.push_back(to_seconds(outcome.phases.total()));
  queue_s += to_seconds(outcome.phases.queue);
  cold_s += to_seconds(outcome.phases.sandbox + outcome.phases.init);
  memory_s += to_seconds(outcome.phases.memory);
  run_s += to_seconds(outcome.phases.run);
  if (outcome.start == StartClass::kCold) ++cold;
}

void MeasuredWorkload::restored(const journal::SegmentHeader& header, const Dispatcher& dispatcher,
                                const journal::Names& names) {
  *this = MeasuredWorkload(device_);
  names_ = names;
  facts_ = header.facts;
  const scheduling::Flows& flows = dispatcher.flows();
  for (uint32_t id = 0; id < flows.size(); ++id) {
    const scheduling::Flow& flow = flows[id];
    if (!flow.registered) continue;
    Function& function = functions_[FunctionId{id}];
    function.profile = {.id = FunctionId{id},
                        .tenant = flow.tenant,
                        .revision = flow.revision,
                        .weight = flow.weight,
                        .max_concurrency = flow.max_concurrency,
                        .device_memory = flow.device_memory,
                        .timeout = flow.timeout,
                        .memory_moves = flow.memory_moves,
                        .checkpoints = flow.checkpoints,
                        .mean_execution = flow.execution.mean(),
                        .mean_interarrival = flow.interarrival.mean(),
                        .mean_cold_start = flow.cold_start.mean(),
                        .completed = flow.execution.samples(),
                        .min_instances = flow.min_instances,
                        .keep_alive = flow.keep_alive,
                        .sandbox_concurrency = flow.sandbox_concurrency,
                        .gpu_count = flow.gpu_count};
  }
  const scheduling::Fleet& fleet = dispatcher.fleet();
  for (const scheduling::SandboxSlot slot : fleet.all()) {
    uint64_t ids = 0;
    scheduling::for_each_device_in(fleet.sandbox(slot).beside, [&](uint32_t index) {
      ids |= uint64_t{1} << (fleet.devices()[index].options.id.value - 1);
    });
    if (ids != 0) beside_[fleet.sandbox(slot).id] = ids;
  }
  // What runs already slows down what comes.
  for (const scheduling::Device& device : dispatcher.fleet().devices()) {
    clocks_[device.options.id.value] = {.running = device.tokens_held, .since = header.now};
  }
}

double MeasuredWorkload::work_done_s(uint32_t device, Instant now) {
  WorkClock& clock = clocks_[device];
  const bool is_gpu = device != scheduling::kHostDevice.value;
  const double factor =
      is_gpu ? simulator::slowed_down(clock.running, device_.slowdown, device_.contention) : 1;
  clock.done_s += to_seconds(now - clock.since) / factor;
  clock.since = now;
  return clock.done_s;
}

void MeasuredWorkload::count_at_work(const Running& run, int by, Instant now) {
  const auto count = [&](uint32_t device) {
    work_done_s(device, now);
    unsigned& running = clocks_[device].running;
    running = by > 0 || running > 0 ? running + static_cast<unsigned>(by) : 0;
  };
  count(run.device);
  scheduling::for_each_device_in(run.beside, [&](uint32_t bit) { count(bit + 1); });
}

void MeasuredWorkload::step(const journal::ReplayStep& step) {
  const Instant now = step.recorded.now;
  if (!begin_) begin_ = now;
  last_event_ = now;
  // A function keeps its name; names come in between the events.
  if (step.names.size() != names_.size()) names_ = step.names;
  const Event& event = step.recorded.event;
  if (const auto* registered = std::get_if<FunctionRegistered>(&event)) {
    functions_[registered->profile.id].profile = registered->profile;
  }
  if (const auto* submitted = std::get_if<InvocationSubmitted>(&event)) {
    if (arrivals_.size() >= limits::kTraceArrivals) {
      too_many_ = true;
      return;
    }
    if (functions_.contains(submitted->function)) {
      waiting_[submitted->invocation] = arrivals_.size();
      arrivals_.push_back(
          {Instant(now - *begin_), submitted->function, submitted->asynchronous, Duration(0)});
    }
  }
  if (const auto* ready = std::get_if<SandboxReady>(&event)) {
    if (const auto found = starting_.find(ready->sandbox); found != starting_.end()) {
      functions_[found->second].sandbox.add(ready->sandbox_time);
      functions_[found->second].init.add(ready->init_time);
      starting_.erase(found);
    }
  }
  if (const auto* exited = std::get_if<SandboxExited>(&event)) {
    starting_.erase(exited->sandbox);
    beside_.erase(exited->sandbox);
    awaiting_memory_.erase(exited->sandbox);
  }
  if (const auto* moved = std::get_if<MemoryMoved>(&event);
      moved != nullptr && moved->done == (moved->direction == MoveDirection::kIn)) {
    if (const auto found = awaiting_memory_.find(moved->sandbox); found != awaiting_memory_.end()) {
      start(found->second, now);
      awaiting_memory_.erase(found);
    }
  }
  for (const Action& action : step.actions) {
    if (const auto* one = std::get_if<StartSandbox>(&action)) {
      starting_[one->sandbox] = one->function;
      if (one->beside != 0) beside_[one->sandbox] = one->beside;
    } else if (const auto* one = std::get_if<StartInvocation>(&action)) {
      // What it takes on the device is measured from when its memory is there.
      if (one->start == StartClass::kGpuCold) {
        awaiting_memory_[one->sandbox] = *one;
      } else {
        awaiting_memory_.erase(one->sandbox);
        start(*one, now);
      }
    } else if (const auto* one = std::get_if<CompleteInvocation>(&action)) {
      complete(*one, now);
    }
  }
}

void MeasuredWorkload::start(const StartInvocation& action, Instant now) {
  const auto found = waiting_.find(action.invocation);
  if (found == waiting_.end()) return;
  const uint32_t device = action.device.value;
  const auto beside = beside_.find(action.sandbox);
  const Running run{.arrival = found->second,
                    .device = device,
                    .beside = beside != beside_.end() ? beside->second : 0,
                    .work_from_s = work_done_s(device, now)};
  running_[action.invocation] = run;
  count_at_work(run, 1, now);
  waiting_.erase(found);
}

void MeasuredWorkload::complete(const CompleteInvocation& action, Instant now) {
  if (const auto waiting = waiting_.find(action.invocation); waiting != waiting_.end()) {
    ended_.push_back({waiting->second, action});
    waiting_.erase(waiting);
    return;
  }
  const auto found = running_.find(action.invocation);
  if (found == running_.end()) {
    // It ran before the journal begins.
    WorkClock& clock = clocks_[action.device.value];
    work_done_s(action.device.value, now);
    if (clock.running > 0) --clock.running;
    return;
  }
  const Running& run = found->second;
  ended_.push_back({run.arrival, action});
  const Duration alone = from_seconds(work_done_s(run.device, now) - run.work_from_s);
  count_at_work(run, -1, now);
  simulator::Arrival& arrival = arrivals_[run.arrival];
  arrival.execution = std::max(alone, Duration(1));
  functions_[arrival.function].execution.add(arrival.execution);
  running_.erase(found);
}

void MeasuredWorkload::keep_last(Duration last) { keep_between(length() - last, std::nullopt); }

void MeasuredWorkload::keep_between(Duration from, std::optional<Duration> to) {
  const auto first_at = [&](Duration after) {
    const auto found = std::ranges::find_if(arrivals_, [&](const simulator::Arrival& arrival) {
      return arrival.at.time_since_epoch() >= after;
    });
    return static_cast<size_t>(found - arrivals_.begin());
  };
  first_kept_ = first_at(from);
  if (to) first_left_out_ = std::max(first_at(*to), first_kept_);
}

void MeasuredWorkload::recorded(const RecordedSink& sink) const {
  for (const Ended& each : ended_) {
    const bool is_kept =
        each.arrival >= first_kept_ && each.arrival < first_left_out_.value_or(arrivals_.size());
    if (is_kept) sink(arrivals_[each.arrival].function, each.outcome);
  }
}

uint64_t MeasuredWorkload::unmeasured() const {
  const std::vector<simulator::Arrival> kept = arrivals();
  return static_cast<uint64_t>(
      std::ranges::count(kept, Duration(0), &simulator::Arrival::execution));
}

std::vector<simulator::Arrival> MeasuredWorkload::arrivals() const {
  std::vector<simulator::Arrival> kept(
      arrivals_.begin() + static_cast<ptrdiff_t>(first_kept_),
      arrivals_.begin() + static_cast<ptrdiff_t>(first_left_out_.value_or(arrivals_.size())));
  if (kept.empty()) return kept;
  const Duration first = kept.front().at.time_since_epoch();
  if (first_kept_ > 0) {
    for (simulator::Arrival& arrival : kept) arrival.at -= first;
  }
  return kept;
}

std::vector<simulator::FunctionModel> MeasuredWorkload::functions() const {
  std::vector<simulator::FunctionModel> models;
  for (const auto& [id, function] : functions_) {
    simulator::FunctionModel model;
    model.profile = function.profile;
    const dispatch::FunctionProfile& profile = function.profile;
    model.execution = function.execution.value().value_or(
        profile.completed > 0 ? profile.mean_execution : Duration(seconds(1)));
    model.sandbox_time = function.sandbox.value().value_or(Duration(0));
    model.init_time = function.init.value().value_or(
        profile.mean_cold_start.count() > 0 ? profile.mean_cold_start : Duration(seconds(1)));
    models.push_back(model);
  }
  return models;
}

}  // namespace lambent::bin
