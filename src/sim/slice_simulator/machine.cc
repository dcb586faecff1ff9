#include "sim/slice_simulator/machine.h"

#include <algorithm>

#include "core/base/check.h"
#include "sim/slice_simulator/chance.h"

namespace lambent::slice_simulator {

using slice_scheduling::Action;
using slice_scheduling::InstanceEnded;
using slice_scheduling::InstanceReady;
using slice_scheduling::InstanceUnloaded;

Machine::Machine(const Scene& scene, Tell tell) : scene_(scene), tell_(std::move(tell)) {
  for (const auto& function : scene.functions) functions_[function->id] = function;
  std::map<std::pair<uint32_t, uint32_t>, std::pair<size_t, size_t>> gpu_ports;
  std::map<uint32_t, std::pair<size_t, size_t>> node_ports;
  const MachineModel& model = scene.machine;
  for (const Slice& slice : scene.slices) {
    const auto ports = [&](auto& known, auto key, double gb_per_s) {
      const auto [entry, is_new] = known.try_emplace(key);
      if (is_new) entry->second = {links_.add_port(gb_per_s), links_.add_port(gb_per_s)};
      return entry->second;
    };
    Place& place = places_[slice.id];
    place.slice = slice;
    std::tie(place.gpu_in, place.gpu_out) =
        ports(gpu_ports, std::pair(slice.node, slice.gpu), model.gpu_gb_per_s);
    std::tie(place.node_in, place.node_out) = ports(node_ports, slice.node, model.node_gb_per_s);
  }
  for (size_t i = 0; i < scene.faults.size(); ++i) {
    at(scene.faults[i].at, Happening::kFault, InstanceId{}, i);
  }
}

void Machine::at(Instant when, Happening what, InstanceId instance, size_t number, size_t part) {
  timers_.push({when, ++order_, what, instance, number, part});
}

Instant Machine::next() const {
  const Instant timer = timers_.empty() ? kNever : timers_.top().at;
  return std::min(timer, links_.next().value_or(kNever));
}

void Machine::run_until(Instant until) {
  for (Instant now = next(); now <= until && now != kNever; now = next()) {
    if (links_.next().value_or(kNever) <= now) {
      for (const Links::CopyId copy : links_.finished(now)) copied(copy, now);
    } else {
      const Timer timer = timers_.top();
      timers_.pop();
      happen(timer);
    }
    tell_happened(now);
    finished_.clear();
  }
}

void Machine::inject(const Fault& fault, Instant now) {
  this->fault(fault, now);
  tell_happened(now);
}

void Machine::tell_happened(Instant now) {
  for (const auto& event : std::exchange(happened_, {})) tell_(event, now);
}

void Machine::happen(const Timer& timer) {
  if (timer.what == Happening::kFault) return fault(scene_.faults[timer.number], timer.at);
  const auto found = instances_.find(timer.instance);
  if (found == instances_.end()) return;  // it ended in the meantime
  switch (timer.what) {
    case Happening::kStarted:
      if (found->second.presence != Presence::kStarting) return;
      if (timer.at < found->second.started_at) {  // others came to start beside it
        return at(found->second.started_at, Happening::kStarted, timer.instance, 0);
      }
      found->second.presence = Presence::kLoading;
      return move_weights(timer.instance, Move::kFirst, timer.at);
    case Happening::kStopped:
      return end(timer.instance, "it was stopped", timer.at);
    case Happening::kStepDone: {
      const Part& part = found->second.wiring.stage_processes[timer.number].parts[timer.part];
      end_step(timer.instance, timer.number, timer.part, timer.at, timer.at - part.since);
      return step(timer.instance, timer.number, timer.part, timer.at);
    }
    case Happening::kHandedOver:
      return hand_on(timer.instance, timer.number, timer.part, timer.at);
    case Happening::kReceived:
      return received(timer.instance, timer.number, timer.at);
    case Happening::kFault:
      return;
  }
}

void Machine::perform(const Action& action, Instant now) {
  if (const auto* wanted = std::get_if<slice_scheduling::StartInstance>(&action)) {
    start(*wanted, now);
  } else if (const auto* stop = std::get_if<slice_scheduling::StopInstance>(&action)) {
    const auto found = instances_.find(stop->instance);
    if (found == instances_.end()) return;
    if (!found->second.jobs.empty()) complain("an instance was stopped that has jobs", now);
    found->second.presence = Presence::kStopping;
    at(now + scene_.machine.stop, Happening::kStopped, stop->instance, 0);
  } else if (const auto* unload = std::get_if<slice_scheduling::UnloadInstance>(&action)) {
    const auto found = instances_.find(unload->instance);
    if (found == instances_.end()) return;
    if (found->second.presence != Presence::kLoaded || !found->second.jobs.empty()) {
      complain("an instance was unloaded that is not loaded and idle", now);
    }
    found->second.presence = Presence::kUnloading;
    move_weights(unload->instance, Move::kOut, now);
  } else if (const auto* load = std::get_if<slice_scheduling::LoadInstance>(&action)) {
    const auto found = instances_.find(load->instance);
    if (found == instances_.end()) return;
    if (found->second.presence != Presence::kUnloaded) {
      complain("an instance was loaded that is not unloaded", now);
    }
    found->second.presence = Presence::kLoading;
    found->second.coming = {now, kNever};
    hold(found->second, load->instance, true, now);
    come(found->second, true, now);
    move_weights(load->instance, Move::kIn, now);
  } else if (const auto* given = std::get_if<slice_scheduling::GiveJob>(&action)) {
    give(*given, now);
  }
}

void Machine::start(const slice_scheduling::StartInstance& wanted, Instant now) {
  Running& running = instances_[wanted.instance];
  const pipeline::PipelineFunction& function = *functions_.at(wanted.function);
  running.function = wanted.function;
  running.wiring = wire(function, wanted.placement);
  running.coming = {now, kNever};
  for (const RunningStageProcess& stage_process : running.wiring.stage_processes) {
    Place& place = places_.at(stage_process.slice);
    if (place.lost) complain("an instance was started on a slice that is lost", now);
    place.contexts[wanted.instance] = function.profile.context;
  }
  hold(running, wanted.instance, true, now);
  come(running, true, now);
  running.start = function.profile.start + start_beside_others(wanted.instance, now);
  running.started_at = now + running.start;
  const double luck = chance(scene_.seed, wanted.instance.value, 0);
  if (luck < scene_.machine.failed_starts) {
    at(now + running.start / 2, Happening::kStopped, wanted.instance, 0);
  } else {
    at(running.started_at, Happening::kStarted, wanted.instance, 0);
  }
}

// What those that are starting add to the start of `id`, which adds to theirs.
Duration Machine::start_beside_others(InstanceId id, Instant now) {
  const Duration each = scene_.machine.start_beside;
  const auto stage_processes = [](const Running& one) {
    return static_cast<double>(one.wiring.stage_processes.size());
  };
  const double mine = stage_processes(instances_.at(id));
  double added_s = to_seconds(each) * (mine - 1);
  for (auto& [other_id, other] : instances_) {
    if (other_id == id || other.presence != Presence::kStarting || other.started_at <= now)
      continue;
    const double share = to_seconds(other.started_at - now) / to_seconds(other.start);
    added_s += to_seconds(each) * stage_processes(other) * share;
    const Duration longer = from_seconds(to_seconds(each) * mine * share);
    other.start += longer;
    other.started_at += longer;
  }
  return from_seconds(added_s);
}

void Machine::move_weights(InstanceId id, Move move, Instant now) {
  Running& running = instances_.at(id);
  const bool in = move != Move::kOut;
  const bool takes_all = move != Move::kFirst && scene_.machine.moves_take_all;
  const Bytes context = functions_.at(running.function)->profile.context;
  for (size_t i = 0; i < running.wiring.stage_processes.size(); ++i) {
    const RunningStageProcess& stage_process = running.wiring.stage_processes[i];
    const Place& place = places_.at(stage_process.slice);
    const bool free = !in && !scene_.machine.unload_copies;
    const double share = free ? 0 : takes_all ? 1 : scene_.machine.moved_share;
    const Bytes moved = takes_all ? stage_process.memory - context : stage_process.weights;
    const Bytes bytes(static_cast<uint64_t>(static_cast<double>(moved.count) * share));
    const auto copy = links_.start(
        bytes, scene_.machine.copy_gb_per_s,
        in ? std::vector{place.gpu_in, place.node_in} : std::vector{place.gpu_out, place.node_out},
        now);
    copied_ += bytes;
    running.weights[copy] = i;
    copies_[copy] = {id, 0, in ? Copying::What::kWeightsIn : Copying::What::kWeightsOut};
  }
}

void Machine::copied(Links::CopyId copy, Instant now) {
  const auto found = copies_.find(copy);
  CHECK(found != copies_.end(), "a copy that was never started");
  const Copying copying = found->second;
  copies_.erase(found);
  const auto owner = instances_.find(copying.instance);
  if (owner == instances_.end()) return;
  Running& running = owner->second;
  if (copying.what == Copying::What::kSend) return sent(copying.instance, copying.channel, now);
  if (copying.what == Copying::What::kReceive) {
    Value& value = running.wiring.channels[copying.channel].values.front();
    value.receive = 0;
    value.received = true;
    return received(copying.instance, copying.channel, now);
  }
  running.weights.erase(copy);
  if (!running.weights.empty()) return;
  if (running.presence == Presence::kLoading) {
    running.presence = Presence::kLoaded;
    running.coming.there = now;
    come(running, false, now);
    happened_.push_back(InstanceReady{copying.instance});
  } else if (running.presence == Presence::kUnloading) {
    running.presence = Presence::kUnloaded;
    hold(running, copying.instance, false, now);
    happened_.push_back(InstanceUnloaded{copying.instance});
  }
}

void Machine::hold(Running& running, InstanceId id, bool held, Instant now) {
  for (const RunningStageProcess& stage_process : running.wiring.stage_processes) {
    Place& place = places_.at(stage_process.slice);
    const Bytes context = functions_.at(running.function)->profile.context;
    if (!held && place.memory.erase(id) == 0) continue;
    if (held) place.memory[id] = stage_process.memory - context;
    place.counter.change(&Counter::held, &Use::held, held ? 1 : -1, now);
    gpu_of(place).change(&Counter::held, &Use::held, held ? 1 : -1, now);
    if (place.memory.size() > 1) complain("two instances are loaded on one slice", now);
    Bytes all;
    for (const auto& [unused, bytes] : place.memory) all += bytes;
    for (const auto& [unused, bytes] : place.contexts) all += bytes;
    if (held && all > place.slice.shape.memory) complain("a slice has too little memory", now);
  }
}

void Machine::come(Running& running, bool coming, Instant now) {
  running.is_coming = coming;
  for (const RunningStageProcess& stage_process : running.wiring.stage_processes) {
    Place& place = places_.at(stage_process.slice);
    place.counter.change(&Counter::coming, &Use::coming, coming ? 1 : -1, now);
    gpu_of(place).change(&Counter::coming, &Use::coming, coming ? 1 : -1, now);
  }
}

void Machine::fault(const Fault& fault, Instant now) {
  const auto found = places_.find(fault.slice);
  if (found == places_.end()) return;
  if (fault.kind == Fault::Kind::kSliceBack) {
    if (!std::exchange(found->second.lost, false)) return;
    happened_.push_back(slice_scheduling::SliceAdded{found->second.slice});
    return;
  }
  if (fault.kind == Fault::Kind::kSliceLost) {
    if (std::exchange(found->second.lost, true)) return;
    happened_.push_back(slice_scheduling::SliceLost{fault.slice});
  }
  std::vector<InstanceId> there;
  for (const auto& [id, unused] : found->second.contexts) there.push_back(id);
  for (const InstanceId id : there) end(id, "a fault of the simulation", now);
}

void Machine::end(InstanceId id, const std::string& why, Instant now) {
  Running& running = instances_.at(id);
  hold(running, id, false, now);
  if (running.is_coming) come(running, false, now);
  for (const RunningStageProcess& stage_process : running.wiring.stage_processes) {
    if (stage_process.working > 0) work(stage_process, false, now);
    places_.at(stage_process.slice).contexts.erase(id);
  }
  for (const auto& [copy, unused] : running.weights) {
    links_.cancel(copy, now);
    copies_.erase(copy);
  }
  for (const Channel& channel : running.wiring.channels) {
    for (const Value& value : channel.values) {
      for (const Links::CopyId copy : {value.send, value.receive}) {
        links_.cancel(copy, now);
        copies_.erase(copy);
      }
    }
  }
  instances_.erase(id);
  happened_.push_back(
      InstanceEnded{id, Error{ErrorCode::kUnavailable, "the instance ended: " + why}});
}

void Machine::Counter::change(Since Counter::*which, Duration Use::*sum, int by, Instant now) {
  Since& one = this->*which;
  if (one.count == 0) one.since = now;
  CHECK(by > 0 || one.count > 0, "a slice that is less than unused");
  one.count += static_cast<unsigned>(by);
  if (one.count == 0) use.*sum += now - one.since;
}

Use Machine::Counter::until(Instant now) const {
  Use sum = use;
  if (busy.count > 0) sum.busy += now - busy.since;
  if (held.count > 0) sum.held += now - held.since;
  if (coming.count > 0) sum.coming += now - coming.since;
  return sum;
}

void Machine::work(const RunningStageProcess& stage_process, bool working, Instant now) {
  Place& place = places_.at(stage_process.slice);
  place.counter.change(&Counter::busy, &Use::busy, working ? 1 : -1, now);
  gpu_of(place).change(&Counter::busy, &Use::busy, working ? 1 : -1, now);
  if (place.counter.busy.count > 1) complain("two stage processes work on one slice", now);
}

std::map<DeviceId, Use> Machine::slice_use(Instant now) const {
  std::map<DeviceId, Use> uses;
  for (const auto& [id, place] : places_) uses[id] = place.counter.until(now);
  return uses;
}

std::map<std::pair<uint32_t, uint32_t>, Use> Machine::gpu_use(Instant now) const {
  std::map<std::pair<uint32_t, uint32_t>, Use> uses;
  for (const auto& [id, counter] : gpus_) uses[id] = counter.until(now);
  return uses;
}

const JobTimes* Machine::times_of(JobId job) const {
  const auto found = finished_.find(job);
  return found == finished_.end() ? nullptr : &found->second;
}

const Machine::Coming* Machine::coming_of(InstanceId instance) const {
  const auto found = instances_.find(instance);
  return found == instances_.end() ? nullptr : &found->second.coming;
}

void Machine::complain(std::string what, Instant now) {
  static constexpr size_t kMost = 100;
  if (impossible_.size() >= kMost) return;
  impossible_.push_back("at " + std::to_string(to_seconds(now.time_since_epoch())) + " s: " + what);
}

}  // namespace lambent::slice_simulator
