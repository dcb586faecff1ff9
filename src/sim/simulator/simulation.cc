#include "sim/simulator/simulation.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/fetch_lines.h"

namespace lambent::simulator {

using dispatch::Action;
using dispatch::Event;

namespace {

// The phases of a round, in their order.
enum Step : uint32_t { kOnHost, kCopyIn, kKernels, kCopyOut, kSteps };

bool happens(SeededRandom& random, double probability) {
  return probability > 0 && random.uniform() < probability;
}

bool uses_gpu(const FunctionModel& model) { return model.profile.device_memory > Bytes(0); }

}  // namespace

ArrivalSource arrivals_from(const std::vector<Arrival>& arrivals) {
  return [&arrivals, next = size_t{0}]() mutable -> std::optional<Arrival> {
    return next < arrivals.size() ? std::optional(arrivals[next++]) : std::nullopt;
  };
}

Simulation::Simulation(SimulationOptions options, std::unique_ptr<scheduling::Policy> policy,
                       OutcomeSink sink)
    : options_(std::move(options)),
      dispatcher_(options_.dispatch, std::move(policy)),
      sink_(std::move(sink)),
      random_(options_.seed) {
  const auto& gpus = options_.dispatch.fleet.devices;
  devices_.assign(gpus.size(), ModelledDevice(options_.device.slowdown, options_.device.contention,
                                              options_.device.sharing));
  devices_.emplace_back(0.0);
  // With n at work each takes n times as long.
  links_.assign(2 * gpus.size(), ModelledDevice(1.0));
  finishes_ = NextEnd(devices_.size() + links_.size() + 1);
  starting_.assign(devices_.size(), 0);
  busy_at_reading_.assign(gpus.size(), Duration(0));
  averages_.assign(gpus.size(), scheduling::MovingAverage(options_.device.utilisation_average));
  reads_utilisation_ = std::any_of(gpus.begin(), gpus.end(), [](const auto& device) {
    return device.by_utilisation.has_value();
  });
  if (reads_utilisation_) next_reading_ = now_ + options_.device.reading_period;
  counts_foreseen_ = options_.dispatch.fleet.foresight.starts_ahead;
  if (options_.oracle) dispatcher_.foretell(options_.oracle);
  for (const dispatch::TenantChanged& tenant : options_.tenants) give(tenant);
  for (const FunctionModel& function : options_.functions) {
    const uint32_t id = function.profile.id.value;
    if (id >= models_.size()) models_.resize(id + 1);
    models_[id] = function;
    give(dispatch::FunctionRegistered{function.profile});
  }
  for (const auto& [delay, changed] : options_.tenant_changes) after(delay, changed);
}

void Simulation::run(const ArrivalSource& arrivals) {
  std::optional<Arrival> arrival = arrivals();
  // One is drawn before its time, so that its records can be fetched while others are served.
  std::optional<Arrival> after = arrival ? arrivals() : std::nullopt;
  for (;;) {
    // Of equal instants: what happens to running work first, then arrivals, then timers.
    Instant next = finishes_.top_end();
    enum { kFinish, kDue, kArrival, kWake, kReading } what = kFinish;
    const auto consider = [&](Instant at, auto kind) {
      if (at < next) {
        next = at;
        what = kind;
      }
    };
    if (!due_.empty()) consider(due_.top_key().at, kDue);
    if (arrival) consider(arrival->at, kArrival);
    const bool work_left =
        arrival || dispatcher_.queued() > 0 || dispatcher_.in_flight() > 0 || !due_.empty();
    if (!work_left) return;
    consider(wake_, kWake);
    consider(next_reading_, kReading);
    if (next == kNever) return;
    now_ = std::max(now_, next);
    switch (what) {
      case kFinish:
        finish_next();
        break;
      case kDue:
        take_due();
        break;
      case kArrival:
        submit(*arrival);
        arrival = after;
        if (arrival) dispatcher_.fetch_place(arrival->function);
        if (after) after = arrivals();
        if (after) {
          dispatcher_.fetch_flow(after->function);
          if (after->function.value < models_.size()) fetch_lines(models_[after->function.value]);
        }
        break;
      case kWake:
        wake_ = kNever;
        give(dispatch::TimerFired{});
        break;
      case kReading:
        read_devices();
        break;
    }
  }
}

double Simulation::utilisation(uint32_t device) const {
  const double elapsed = to_seconds(now_.time_since_epoch());
  return elapsed > 0 ? to_seconds(busy(device)) / elapsed : 0;
}

void Simulation::submit(const Arrival& arrival) {
  const InvocationId id{arrival.function.value, ++invocations_};
  submitted_.add(id.low, now_);
  if (arrival.execution > Duration(0)) executions_.add(id.low, arrival.execution);
  give(dispatch::InvocationSubmitted{id, arrival.function, arrival.asynchronous});
}

void Simulation::submit_after(Duration delay, FunctionId function) {
  after(delay, dispatch::InvocationSubmitted{.function = function});
}

void Simulation::take_due() {
  const uint32_t slot = due_.pop();
  const Event event = std::move(due_events_[slot]);
  free_due_.push_back(slot);
  if (const auto* submitted = std::get_if<dispatch::InvocationSubmitted>(&event)) {
    submit({.at = now_, .function = submitted->function});
    return;
  }
  if (const auto* ready = std::get_if<dispatch::SandboxReady>(&event)) {
    const RunSlot* slot = slots_.find(ready->sandbox.value);
    // It may have been stopped meanwhile.
    if (slot == nullptr || !runs_[*slot].starting) return;
    Run& sandbox = runs_[*slot];
    if (sandbox.constants > Bytes(0) && !sandbox.loads) {
      sandbox.loads = true;
      carry(*slot, sandbox.device, dispatch::MoveDirection::kIn, sandbox.constants);
      return;
    }
    sandbox.starting = false;
    change_starting(sandbox.device, -1);
  }
  if (const auto* exited = std::get_if<dispatch::SandboxExited>(&event)) {
    const RunSlot* slot = slots_.find(exited->sandbox.value);
    if (slot == nullptr) return;
    if (runs_[*slot].starting) change_starting(runs_[*slot].device, -1);
    remove(*slot);
  }
  give(event);
}

void Simulation::give(const Event& event) {
  // Performing an action never gives the dispatcher an event at once, but an observer might.
  std::vector<Action> actions;
  if (!spare_.empty()) {
    actions = std::move(spare_.back());
    spare_.pop_back();
  }
  actions.clear();
  dispatcher_.handle(event, now_, actions);
  if (counts_foreseen_) (void)foreseen_.note(event, actions, dispatcher_.flows());
  if (observer_) observer_(event, now_, actions);
  for (Action& action : actions) {
    std::visit([this](auto& one) { perform(one); }, action);
  }
  spare_.push_back(std::move(actions));
}

void Simulation::perform(const dispatch::StartSandbox& action) {
  const FunctionModel& model = models_[action.function.value];
  const uint32_t device = device_of(action.device);
  const Duration init_time =
      device + 1 == devices_.size() && uses_gpu(model) ? model.host_init_time : model.init_time;
  const bool on_gpu = action.device != scheduling::kHostDevice;
  const auto place = on_gpu ? dispatcher_.fleet().find(action.sandbox) : std::nullopt;
  // The others of its devices are at work for as long as the first.
  const uint64_t beside = place ? dispatcher_.fleet().sandbox(*place).beside : 0;
  add({.sandbox = action.sandbox,
       .device = device,
       .function = action.function,
       .memory = model.profile.device_memory,
       .place = place.value_or(scheduling::kNoSandbox),
       .starting = true,
       .is_kernel = model.is_kernel,
       .constants = device < links_.size() / 2 ? model.constants : Bytes(0),
       .beside = beside});
  change_starting(device, 1);
  if (happens(random_, options_.faults.start_hangs)) return;
  if (happens(random_, options_.faults.start_fails)) {
    after(model.sandbox_time,
          dispatch::SandboxExited{
              action.sandbox, {ErrorCode::kInternal, "no more processes"}, "Sandbox.Failure"});
    return;
  }
  if (happens(random_, options_.faults.init_crashes)) {
    after(model.sandbox_time + init_time,
          dispatch::SandboxExited{
              action.sandbox, {ErrorCode::kUnknown, "exit status 1"}, "Runtime.ExitError"});
    return;
  }
  after(model.sandbox_time + init_time,
        dispatch::SandboxReady{action.sandbox, model.sandbox_time, init_time});
}

void Simulation::perform(const dispatch::StartInvocation& action) {
  const FunctionModel& model = models_[static_cast<uint32_t>(action.invocation.high)];
  RunSlot slot = slot_of(action.sandbox);
  if (runs_[slot].busy) slot = beside(slot);
  Run& run = runs_[slot];
  run.busy = true;
  run.invocation = action.invocation;
  run.fails = happens(random_, options_.faults.handler_errors);
  run.crashes = happens(random_, options_.faults.crashes);
  const bool on_host = run.device + 1 == devices_.size() && uses_gpu(model);
  Duration work = on_host ? model.host_execution : model.execution;
  if (model.spread > 0) {
    work = from_seconds(to_seconds(work) * (1 + model.spread * (2 * random_.uniform() - 1)));
  }
  // One that starts again takes as long again.
  if (const Duration* own = executions_.find(action.invocation.low)) {
    work = *own;
    if (on_host) {
      work = from_seconds(to_seconds(work) * to_seconds(model.host_execution) /
                          to_seconds(model.execution));
    }
  }
  if (!on_host && options_.device.move_off_holds_token &&
      dispatcher_.policy().moves_off_after_run()) {
    work += from_seconds(static_cast<double>(model.profile.device_memory.count) /
                         options_.device.link_out_bytes_per_second);
  }
  run.work = happens(random_, options_.faults.hangs) ? Duration::max() : work;
  run.started = now_;
  run.step = 0;
  run.awaits_memory = action.start == StartClass::kGpuCold;
  if (!run.awaits_memory) begin_work(slot);
}

// What went on while its memory was on its way is done; the rest begins now.
void Simulation::begin_work(RunSlot slot) {
  Run& run = runs_[slot];
  const FunctionModel& model = models_[run.function.value];
  if (model.phases.rounds > 0 && !(run.device + 1 == devices_.size() && uses_gpu(model)) &&
      run.work != Duration::max()) {
    const Duration ahead = run.awaits_memory ? now_ - run.started : Duration(0);
    run.awaits_memory = false;
    if (!begin_step(slot, ahead)) end_run(slot);
    return;
  }
  Duration work = run.work;
  if (work != Duration::max()) {
    const Duration ahead = from_seconds(to_seconds(work) * options_.device.host_share);
    work -= std::min(ahead, now_ - run.started);
  }
  run.awaits_memory = false;
  devices_[run.device].start(slot, work, now_);
  note_next(run.device);
  scheduling::for_each_device_in(run.beside, [&](uint32_t other) {
    devices_[other].start(slot, Duration::max(), now_);
    note_next(other);
  });
}

bool Simulation::begin_step(RunSlot slot, Duration ahead) {
  Run& run = runs_[slot];
  const PhaseModel& phases = models_[run.function.value].phases;
  const double share = to_seconds(run.work) / phases.rounds;
  // Those that take no time are passed over.
  for (;; ahead = {}) {
    if (run.step == kSteps * phases.rounds) return false;
    const uint32_t step = run.step++ % kSteps;
    if (step == kOnHost) {
      const Duration work = from_seconds(share * phases.host);
      if (work <= ahead) continue;
      on_host_.start(slot, work - ahead, now_);
      note_next(devices_.size() + links_.size());
      return true;
    }
    if (step == kKernels) {
      const Duration work = from_seconds(share * phases.kernels);
      if (work == Duration(0)) continue;
      devices_[run.device].start(slot, work, now_, phases.occupancy);
      note_next(run.device);
      scheduling::for_each_device_in(run.beside, [&](uint32_t other) {
        devices_[other].start(slot, Duration::max(), now_);
        note_next(other);
      });
      return true;
    }
    const Bytes all = step == kCopyIn ? phases.copy_in : phases.copy_out;
    if (all.count < phases.rounds) continue;
    run.copies = true;
    carry(slot, run.device,
          step == kCopyIn ? dispatch::MoveDirection::kIn : dispatch::MoveDirection::kOut,
          Bytes(all.count / phases.rounds));
    return true;
  }
}

void Simulation::begin_move(RunSlot slot, dispatch::MoveDirection direction, Bytes bytes) {
  Run& run = runs_[slot];
  const bool in = direction == dispatch::MoveDirection::kIn;
  run.move_began = now_;
  run.moving = bytes;
  run.carried = bytes;
  if (run.is_kernel) run.carried = in ? std::min(bytes, run.constants) : Bytes(0);
  Duration longer{};
  if (!in && !run.was_out) {
    longer = from_seconds(static_cast<double>(run.carried.count) /
                          static_cast<double>(Bytes::gib(1).count) *
                          options_.device.first_out_seconds_per_gib) *
             run.devices();
  }
  run.was_out |= !in;
  // On the links of all its devices at once.
  run.links = 0;
  run.on_devices([&](uint32_t device) {
    carry(slot, device, direction, run.carried, longer);
    ++run.links;
  });
}

void Simulation::carry(RunSlot slot, uint32_t device, dispatch::MoveDirection direction,
                       Bytes bytes, Duration longer) {
  const bool in = direction == dispatch::MoveDirection::kIn;
  const double rate =
      in ? options_.device.link_bytes_per_second : options_.device.link_out_bytes_per_second;
  const uint32_t link = link_of(device, direction);
  links_[link].start(slot, from_seconds(static_cast<double>(bytes.count) / rate) + longer, now_);
  note_next(devices_.size() + link);
}

void Simulation::end_move_on(uint32_t link) {
  const auto slot = static_cast<RunSlot>(links_[link].finish(now_));
  note_next(devices_.size() + link);
  Run& run = runs_[slot];
  if (run.copies) {
    run.copies = false;
    if (!begin_step(slot)) end_run(slot);
    return;
  }
  if (run.starting) {
    // It is ready with its constants there.
    const FunctionModel& model = models_[run.function.value];
    run.starting = false;
    run.loads = false;
    change_starting(run.device, -1);
    give(dispatch::SandboxReady{run.sandbox, model.sandbox_time, model.init_time});
    return;
  }
  if (--run.links > 0) return;
  const bool in = link % 2 == 0;
  run.outside = in ? run.offloaded : run.outside + run.moving;
  if (!in && !run.is_kernel) {
    const auto moved = static_cast<double>((run.memory - options_.device.stays).count);
    run.offloaded = Bytes(static_cast<uint64_t>(moved * (1 - options_.device.touched)));
  }
  if (in && run.awaits_memory) begin_work(slot);
  give(dispatch::MemoryMoved{
      .sandbox = run.sandbox,
      .direction = in ? dispatch::MoveDirection::kIn : dispatch::MoveDirection::kOut,
      .moved = run.carried * run.devices(),
      .left = in ? Bytes(0) : run.memory - run.outside,
      .offloaded = in ? Bytes(0) : run.offloaded,
      .duration = now_ - run.move_began});
}

void Simulation::finish_next() {
  const auto which = finishes_.top();
  const auto devices = static_cast<uint32_t>(devices_.size());
  if (which < devices) {
    finish_on(which);
  } else if (which < devices + links_.size()) {
    end_move_on(which - devices);
  } else {
    const auto slot = static_cast<RunSlot>(on_host_.finish(now_));
    note_next(which);
    if (!begin_step(slot)) end_run(slot);
  }
}

void Simulation::perform(const dispatch::StopSandbox& action) {
  take_off(slot_of(action.sandbox));
  after(options_.device.stop_time, dispatch::SandboxExited{action.sandbox, {}, ""});
}

void Simulation::perform(const dispatch::MoveMemoryIn& action) {
  const RunSlot slot = slot_of(action.sandbox);
  begin_move(slot, dispatch::MoveDirection::kIn, runs_[slot].outside - runs_[slot].offloaded);
}

void Simulation::perform(const dispatch::MoveMemoryOut& action) {
  const RunSlot slot = slot_of(action.sandbox);
  const Run& run = runs_[slot];
  const bool deep = action.depth == dispatch::MoveDepth::kContext;
  // The context of a kernel function is its executor's.
  const Bytes stays = deep || run.is_kernel ? Bytes(0) : options_.device.stays;
  begin_move(slot, dispatch::MoveDirection::kOut, run.memory - run.outside - stays);
}

void Simulation::perform(dispatch::CompleteInvocation& action) {
  const Instant* found = submitted_.find(action.invocation.low);
  CHECK(found != nullptr, "an invocation has exactly one outcome");
  const Instant submitted = *found;
  submitted_.erase(action.invocation.low);
  executions_.erase(action.invocation.low);
  if (!sink_) return;
  const FunctionId function{static_cast<uint32_t>(action.invocation.high)};
  sink_({function, submitted, now_, std::move(action)});
}

void Simulation::finish_on(uint32_t device) {
  const auto slot = static_cast<RunSlot>(devices_[device].finish(now_));
  const Run& run = runs_[slot];
  const PhaseModel& phases = models_[run.function.value].phases;
  const bool goes_on = run.step > 0 && run.step < kSteps * phases.rounds;
  if (!goes_on && run.place != scheduling::kNoSandbox) {
    dispatcher_.fetch_end(run.function, run.place, device);
  }
  note_next(device);
  scheduling::for_each_device_in(run.beside, [&](uint32_t other) {
    devices_[other].stop(slot, now_);
    note_next(other);
  });
  if (!goes_on || !begin_step(slot)) end_run(slot);
}

void Simulation::end_run(RunSlot slot) {
  Run& run = runs_[slot];
  run.busy = false;
  if (run.crashes) {
    const SandboxId sandbox = run.sandbox;
    remove(slot_of(sandbox));
    give(dispatch::SandboxExited{
        sandbox, {ErrorCode::kUnknown, "signal: segmentation fault"}, "Runtime.ExitError"});
    return;
  }
  // Until its answer is told it holds its token, but nothing of the device.
  const Duration overhead = options_.device.run_overhead;
  const dispatch::InvocationFinished finished{.invocation = run.invocation,
                                              .execution = now_ + overhead - run.started,
                                              .succeeded = !run.fails,
                                              .device_memory = run.memory};
  if (run.joins) {
    std::erase(joined_[run.sandbox], slot);
    free_runs_.push_back(slot);
  }
  if (overhead > Duration(0)) {
    after(overhead, finished);
  } else {
    give(finished);
  }
}

void Simulation::after(Duration delay, Event event) {
  uint32_t slot = static_cast<uint32_t>(due_events_.size());
  if (free_due_.empty()) {
    due_events_.emplace_back();
  } else {
    slot = free_due_.back();
    free_due_.pop_back();
  }
  due_events_[slot] = std::move(event);
  due_.put(slot, {now_ + delay, ++due_count_});
}

Simulation::RunSlot Simulation::add(Run run) {
  RunSlot slot = static_cast<RunSlot>(runs_.size());
  if (free_runs_.empty()) {
    runs_.emplace_back();
  } else {
    slot = free_runs_.back();
    free_runs_.pop_back();
  }
  slots_.add(run.sandbox.value, slot);
  runs_[slot] = run;
  return slot;
}

Simulation::RunSlot Simulation::beside(RunSlot slot) {
  RunSlot joined = static_cast<RunSlot>(runs_.size());
  if (free_runs_.empty()) {
    runs_.emplace_back();
  } else {
    joined = free_runs_.back();
    free_runs_.pop_back();
  }
  const Run& sandbox = runs_[slot];
  runs_[joined] = {.sandbox = sandbox.sandbox,
                   .device = sandbox.device,
                   .function = sandbox.function,
                   .memory = sandbox.memory,
                   .place = sandbox.place,
                   .joins = true};
  joined_[sandbox.sandbox].push_back(joined);
  return joined;
}

void Simulation::take_off(RunSlot slot) {
  if (const auto found = joined_.find(runs_[slot].sandbox); found != joined_.end()) {
    for (const RunSlot joined : found->second) {
      take_off_alone(joined);
      free_runs_.push_back(joined);
    }
    joined_.erase(found);
  }
  take_off_alone(slot);
}

void Simulation::take_off_alone(RunSlot slot) {
  const uint32_t device = runs_[slot].device;
  devices_[device].stop(slot, now_);
  note_next(device);
  scheduling::for_each_device_in(runs_[slot].beside, [&](uint32_t other) {
    devices_[other].stop(slot, now_);
    note_next(other);
  });
  if (on_host_.running() > 0) {
    on_host_.stop(slot, now_);
    note_next(devices_.size() + links_.size());
  }
  runs_[slot].copies = false;
  runs_[slot].on_devices([&](uint32_t each) {
    for (uint32_t link = 2 * each; link < links_.size() && link < 2 * each + 2; ++link) {
      links_[link].stop(slot, now_);
      note_next(devices_.size() + link);
    }
  });
}

// What is still under way, as the constants of one that was stopped while it started, must not end
// as the work of the next one in this slot.
void Simulation::remove(RunSlot slot) {
  take_off(slot);
  slots_.erase(runs_[slot].sandbox.value);
  free_runs_.push_back(slot);
}

Simulation::RunSlot Simulation::slot_of(SandboxId sandbox) {
  const RunSlot* found = slots_.find(sandbox.value);
  CHECK(found != nullptr, "only a sandbox that exists is given work and is stopped");
  return *found;
}

void Simulation::note_next(size_t source) {
  const size_t link = source - devices_.size();
  const ModelledDevice& found = source < devices_.size() ? devices_[source]
                                : link < links_.size()   ? links_[link]
                                                         : on_host_;
  finishes_.put(static_cast<uint32_t>(source), found.next_finish());
}

void Simulation::change_starting(uint32_t device, int by) {
  starting_[device] = static_cast<unsigned>(static_cast<int>(starting_[device]) + by);
  if (!options_.device.starts_contend) return;
  devices_[device].set_guests(starting_[device], now_);
  note_next(device);
}

void Simulation::read_devices() {
  for (uint32_t i = 0; i + 1 < devices_.size(); ++i) {
    const Duration busy = devices_[i].busy(now_);
    const double utilisation =
        to_seconds(busy - busy_at_reading_[i]) / to_seconds(options_.device.reading_period);
    busy_at_reading_[i] = busy;
    give(
        dispatch::DeviceReading{.device = options_.dispatch.fleet.devices[i].id,
                                .utilisation = averages_[i].add(std::min(1.0, utilisation), now_)});
  }
  next_reading_ = now_ + options_.device.reading_period;
}

uint32_t Simulation::device_of(DeviceId id) const {
  if (id == scheduling::kHostDevice) return static_cast<uint32_t>(devices_.size() - 1);
  return *dispatcher_.fleet().device_index(id);
}

}  // namespace lambent::simulator
