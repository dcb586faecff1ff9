// The part of FaultyRun that was not asked for: arrivals, devices that are lost, deployments, stray
// messages, clocks that step.
#include <algorithm>
#include <utility>

#include "sim/simulator/faulty_run.h"

namespace lambent::simulator {

void FaultyRun::arrive(const FaultyScene::Arrival& arrival) {
  const InvocationId id{arrival.function.value, ++result_.arrivals};
  waiting_.insert(id);
  give(dispatch::InvocationSubmitted{id, arrival.function, arrival.asynchronous});
  // As a run of a workflow tells of its next call. Nothing is drawn for it.
  if (result_.arrivals % 6 == 2 && !scene_.functions.empty()) {
    const FaultyScene::Function& next =
        scene_.functions[result_.arrivals / 6 % scene_.functions.size()];
    give(dispatch::CallForeseen{.function = next.profile.id,
                                .within = next.start * static_cast<int64_t>(id.low % 3),
                                .chance = id.low % 4 == 0 ? 0.5 : 1});
  }
  // As a worker whose host memory is short; of one that rests, or long gone, or on a GPU. Nothing
  // is drawn for it either.
  if (result_.arrivals % 16 == 5) {
    give(dispatch::SandboxCrowdedOut{SandboxId{result_.arrivals / 16 + 1}});
  }
  if (chances_.occurs(Fault::kCancellation)) {
    timeline_.after(up_to(random_, seconds(10)),
                    [this, id] { give(dispatch::InvocationCancelled{id}); });
  }
  if (chances_.occurs(Fault::kRepeatedSubmission)) {
    timeline_.after(up_to(random_, seconds(3)), [this, id, arrival] {
      if (!waiting_.contains(id)) return;
      give(dispatch::InvocationSubmitted{id, arrival.function, arrival.asynchronous});
    });
  }
}

void FaultyRun::plan_incidents() {
  const auto plan = [this](Fault fault, uint64_t most, void (FaultyRun::*happen)()) {
    if (chances_.of(fault) == 0) return;
    for (uint64_t i = between(random_, 1, most); i > 0; --i) {
      ++incidents_left_;
      timeline_.at(Instant(up_to(random_, span_)), [this, fault, happen] {
        --incidents_left_;
        chances_.note(fault);
        (this->*happen)();
      });
    }
  };
  plan(Fault::kLostDevice, 3, &FaultyRun::lose_device);
  plan(Fault::kSilentDevice, 4, &FaultyRun::silence_device);
  plan(Fault::kTakenDevice, 8, &FaultyRun::take_of_device);
  plan(Fault::kExecutorDeath, 4, &FaultyRun::kill_executor);
  plan(Fault::kClockStep, 2, &FaultyRun::step_clock);
  plan(Fault::kRedeploy, 6, &FaultyRun::redeploy);
  plan(Fault::kStaleDeploy, 2, &FaultyRun::deploy_stale);
  plan(Fault::kRemoval, 3, &FaultyRun::remove_function);
  plan(Fault::kStrayMessage, 10, &FaultyRun::send_stray);
  plan(Fault::kEarlyTimer, 10, &FaultyRun::fire_early);
  // Not in all worlds that could, for little happens after it.
  if (chances_.of(Fault::kDrain) > 0.1) plan(Fault::kDrain, 1, &FaultyRun::drain);
}

void FaultyRun::lose_device() {
  const uint32_t index = static_cast<uint32_t>(random_.below(devices_.size()));
  devices_[index].lost = true;
  devices_[index].well_at = timeline_.now() + up_to(random_, std::chrono::minutes(2));
  // Some of its sandboxes die, some hang, some do not notice.
  for (auto& [id, process] : processes_) {
    if (process.device != index + 1 || !process.alive) continue;
    const uint64_t fate = random_.below(3);
    if (fate == 0) {
      timeline_.after(up_to(random_, seconds(1)),
                      [this, id = id] { die(id, "Runtime.ExitError", false); });
    }
    if (fate == 1) ++process.runs;
  }
  read_device(index);
}

void FaultyRun::silence_device() {
  const uint32_t index = static_cast<uint32_t>(random_.below(devices_.size()));
  devices_[index].silent = true;
  devices_[index].well_at = timeline_.now() + up_to(random_, seconds(20));
  read_device(index);
}

// By a half at most, or all of it; what is taken last is given back.
void FaultyRun::take_of_device() {
  const scheduling::DeviceOptions& device =
      scene_.dispatch.fleet.devices[random_.below(devices_.size())];
  const uint64_t most = random_.below(4) == 0 ? device.memory.count : device.memory.count / 2;
  give(dispatch::DeviceTaken{device.id, Bytes(random_.below(most + 1))});
  ++incidents_left_;
  timeline_.after(up_to(random_, std::chrono::minutes(1)), [this, id = device.id] {
    --incidents_left_;
    give(dispatch::DeviceTaken{id, Bytes(0)});
  });
}

// Every second function has its sandboxes on a device in one process, and the others in another.
// These end at one instant, but dispatch is told so one after the other, and may have given work to
// the next one by then. Of several that ran it is unknown which did it, so all of them start again;
// so does what was killed.
void FaultyRun::kill_executor() {
  const uint32_t device = 1 + static_cast<uint32_t>(random_.below(devices_.size()));
  const uint32_t which = static_cast<uint32_t>(random_.below(2));
  std::vector<std::pair<SandboxId, bool>> ended;  // and whether it ran
  for (auto& [id, process] : processes_) {
    if (process.device != device || process.function.value % 2 != which) continue;
    if (std::exchange(process.alive, false)) ended.emplace_back(id, process.running);
  }
  const auto ran =
      std::count_if(ended.begin(), ended.end(), [](const auto& one) { return one.second; });
  const bool starts_again = ran > 1 || random_.below(2) == 0;
  for (const auto& [id, ran_then] : ended) {
    const Process& process = processes_[id];
    dispatch::SandboxExited exited{
        id, {ErrorCode::kUnknown, "its executor ended"}, "Sandbox.Failure"};
    if (ran_then || process.given_too_late) exited.error_type = "Kernel.Fault";
    exited.undelivered = ran_then ? starts_again : process.given_too_late;
    give(exited);
  }
  give(dispatch::DeviceTaken{DeviceId{device}, Bytes(0)});
}

void FaultyRun::read_device(uint32_t index) {
  Device& device = devices_[index];
  if (device.well_at <= timeline_.now()) device = {};
  give(dispatch::DeviceReading{.device = scene_.dispatch.fleet.devices[index].id,
                               .utilisation = random_.uniform(),
                               .healthy = !device.lost && !device.silent,
                               .lost = device.lost});
}

void FaultyRun::read_devices() {
  bool all_well = true;
  for (uint32_t i = 0; i < devices_.size(); ++i) {
    read_device(i);
    all_well = all_well && !devices_[i].lost && !devices_[i].silent;
  }
  // After a step of the clock, incidents may still be to come.
  const bool over = timeline_.now().time_since_epoch() > span_ && incidents_left_ == 0;
  if (all_well && over && (waiting_.empty() || dispatcher_.draining())) return;
  timeline_.after(seconds(1), [this] { read_devices(); });
}

void FaultyRun::redeploy() {
  dispatch::FunctionProfile& profile = scene_.any_function(random_).profile;
  ++profile.revision;
  draw_profile(random_, profile);
  register_function(profile);
}

void FaultyRun::register_function(dispatch::FunctionProfile& profile) {
  if (!keeps_instances_) profile.min_instances = 0;
  give(dispatch::FunctionRegistered{profile});
}

void FaultyRun::keep_no_instances() {
  keeps_instances_ = false;
  for (FaultyScene::Function& function : scene_.functions) {
    if (dispatcher_.instances(function.profile.id).wanted > 0) register_function(function.profile);
  }
}

void FaultyRun::deploy_stale() {
  dispatch::FunctionProfile profile = scene_.any_function(random_).profile;
  if (removed_.contains(profile.id)) return;
  profile.revision = 0;
  give(dispatch::FunctionRegistered{profile});
}

void FaultyRun::remove_function() {
  const FunctionId id = scene_.any_function(random_).profile.id;
  removed_.insert(id);
  give(dispatch::FunctionRemoved{id});
  if (random_.below(3) == 0) return;
  timeline_.after(up_to(random_, seconds(30)), [this, id] {
    dispatch::FunctionProfile& profile = scene_.function(id).profile;
    removed_.erase(id);
    ++profile.revision;
    draw_profile(random_, profile);
    register_function(profile);
  });
}

void FaultyRun::send_stray() {
  const SandboxId sandbox{random_.below(2) == 0 ? 1'000'000 : 1 + random_.below(20)};
  switch (random_.below(8)) {
    case 7:
      return give(dispatch::DeviceTaken{DeviceId{99}, Bytes::gib(1)});
    case 6:
      return give(dispatch::MemoryWanted{SandboxId{1'000'000}, Bytes::gib(1)});
    case 5:
      // Of those that exist, only their own keeper tells of moves.
      return give(dispatch::MemoryMoved{SandboxId{1'000'000}, dispatch::MoveDirection::kOut});
    case 0:
      return give(dispatch::SandboxReady{sandbox, seconds(1), seconds(1)});
    case 1:
      // No other may say of a sandbox that it is gone.
      return give(dispatch::SandboxExited{SandboxId{1'000'000}, {}, ""});
    case 2:
      return give(dispatch::InvocationFinished{{77, random_.next()}, seconds(1), true, {}});
    case 3:
      return give(dispatch::DeviceReading{.device = DeviceId{99}, .lost = true});
    default:
      return give(dispatch::FunctionRemoved{FunctionId{999}});
  }
}

}  // namespace lambent::simulator
