// Machine, the jobs: how each passes through its instance's lanes.
#include <algorithm>

#include "base/check.h"
#include "pipeline/profile.h"
#include "slice_simulator/chance.h"
#include "slice_simulator/machine.h"

namespace lambent::slice_simulator {

using State = RunningLane::State;

void Machine::give(const slice_scheduling::GiveJob& wanted, Instant now) {
  const auto found = instances_.find(wanted.instance);
  if (found == instances_.end()) return;
  Running& running = found->second;
  if (running.presence != Presence::kLoaded) {
    complain("a job was given to an instance that is not loaded", now);
  }
  Job& job = running.jobs[wanted.job];
  job.requests = wanted.requests;
  job.number = running.jobs_given++;
  const size_t stages = running.wiring.lanes.back().stage + 1;
  job.execution.resize(stages);
  job.transfer.resize(stages);
  job.times.given = now;
  for (RunningLane& lane : running.wiring.lanes) {
    if (!lane.process.takes(job.number)) continue;
    lane.jobs.push_back(wanted.job);
    ++job.lanes_left;
  }
  for (size_t i = 0; i < running.wiring.lanes.size(); ++i) step(wanted.instance, i, now);
}

// An idle lane begins with the next job.
void Machine::step(InstanceId id, size_t number, Instant now) {
  RunningLane& lane = instances_.at(id).wiring.lanes[number];
  if (lane.state != State::kIdle || lane.jobs.empty()) return;
  lane.state = State::kReceiving;
  lane.at = 0;
  lane.waiting = false;
  receive(id, number, now);
}

void Machine::receive(InstanceId id, size_t number, Instant now) {
  Running& running = instances_.at(id);
  RunningLane& lane = running.wiring.lanes[number];
  if (lane.at == lane.receives.size()) return execute(id, number, now);
  const size_t from = lane.receive_of(running.jobs.at(lane.jobs.front()).number);
  Channel& channel = running.wiring.channels[from];
  if (channel.value != lane.jobs.front()) {
    lane.waiting = true;
    return;
  }
  lane.waiting = false;
  lane.since = now;
  work(lane, true, now);
  channel.receiving = true;
  channel.overlapped = !channel.whole;
  const Place& place = places_.at(lane.slice);
  const Job& job = running.jobs.at(lane.jobs.front());
  channel.receive = links_.start(channel.bytes * job.requests.size(), scene_.machine.copy_gb_per_s,
                                 {place.gpu_in, place.node_in}, now);
  copies_[channel.receive] = {id, from, Copying::What::kReceive};
}

// Called when the receiver has copied, when the sender has, and when the last piece has followed.
void Machine::received(InstanceId id, size_t number, Instant now) {
  Running& running = instances_.at(id);
  Channel& channel = running.wiring.channels[number];
  if (!channel.receiving || !channel.received || !channel.whole) return;
  if (std::exchange(channel.overlapped, false)) {
    // The last piece can be copied on only after it was copied in.
    const double piece_s =
        static_cast<double>(std::min(channel.bytes, scene_.machine.chunk).count) /
        (scene_.machine.copy_gb_per_s * 1e9);
    return at(now + from_seconds(piece_s), Happening::kReceived, id, number);
  }
  RunningLane& lane = running.wiring.lanes[channel.to];
  Job& job = running.jobs.at(lane.jobs.front());
  job.transfer[lane.stage] += now - lane.since;
  work(lane, false, now);
  channel.empty();
  ++lane.at;
  RunningLane& sender = running.wiring.lanes[channel.from];
  const size_t sender_number = channel.from;
  if (sender.waiting && sender.state == State::kHandingOver) {
    sender.waiting = false;
    hand_on(id, sender_number, now);
  }
  receive(id, static_cast<size_t>(&lane - running.wiring.lanes.data()), now);
}

void Machine::execute(InstanceId id, size_t number, Instant now) {
  Running& running = instances_.at(id);
  RunningLane& lane = running.wiring.lanes[number];
  const JobId job_id = lane.jobs.front();
  Job& job = running.jobs.at(job_id);
  Duration edge{};
  if (lane.stage == 0 || running.wiring.lanes.size() == 1) edge = scene_.machine.edge;
  lane.state = State::kExecuting;
  lane.since = now + edge;
  job.transfer[lane.stage] = std::max(job.transfer[lane.stage], edge);
  work(lane, true, now);
  at(now + edge + execution_of(running, lane, job), Happening::kExecuted, id, number, job_id);
}

// The next value of those that the lane hands on, or the end of the job for it.
void Machine::hand_on(InstanceId id, size_t number, Instant now) {
  Running& running = instances_.at(id);
  RunningLane& lane = running.wiring.lanes[number];
  if (lane.at == lane.sends.size()) return lane_done(id, number, now);
  const size_t to = lane.send_of(running.jobs.at(lane.jobs.front()).number);
  Channel& channel = running.wiring.channels[to];
  if (channel.value) {
    lane.waiting = true;
    return;
  }
  if (lane.state == State::kHandingOver) {
    lane.state = State::kSending;
    lane.since = now;
    work(lane, true, now);
    return at(now + scene_.machine.handover, Happening::kHandedOver, id, number);
  }
  const Place& place = places_.at(lane.slice);
  const JobId job_id = lane.jobs.front();
  channel.value = job_id;
  channel.send = links_.start(channel.bytes * running.jobs.at(job_id).requests.size(),
                              scene_.machine.copy_gb_per_s, {place.gpu_out, place.node_out}, now);
  copies_[channel.send] = {id, to, Copying::What::kSend};
  RunningLane& receiver = running.wiring.lanes[channel.to];
  if (receiver.waiting && receiver.state == State::kReceiving) receive(id, channel.to, now);
}

void Machine::sent(InstanceId id, size_t number, Instant now) {
  Running& running = instances_.at(id);
  Channel& channel = running.wiring.channels[number];
  channel.send = 0;
  channel.whole = true;
  RunningLane& lane = running.wiring.lanes[channel.from];
  Job& job = running.jobs.at(lane.jobs.front());
  // What the receiver copies at the same time is not counted twice.
  const Instant alone_until = channel.receiving ? running.wiring.lanes[channel.to].since : now;
  job.transfer[lane.stage] += alone_until - lane.since;
  work(lane, false, now);
  lane.state = State::kHandingOver;
  ++lane.at;
  const size_t sender = channel.from;
  received(id, number, now);
  // The receiver may have been done, and have woken the sender for its next value.
  RunningLane& again = instances_.at(id).wiring.lanes[sender];
  if (again.state == State::kHandingOver && !again.waiting) hand_on(id, sender, now);
}

void Machine::lane_done(InstanceId id, size_t number, Instant now) {
  Running& running = instances_.at(id);
  RunningLane& lane = running.wiring.lanes[number];
  const JobId job_id = lane.jobs.front();
  lane.jobs.pop_front();
  lane.state = State::kIdle;
  lane.waiting = false;
  Job& job = running.jobs.at(job_id);
  if (--job.lanes_left == 0) {
    for (const Duration time : job.execution) job.times.execution += time;
    for (const Duration time : job.transfer) job.times.transfer += time;
    const Duration execution = now - job.times.given;
    finished_[job_id] = job.times;
    running.jobs.erase(job_id);
    happened_.push_back(slice_scheduling::JobFinished{job_id, execution});
  }
  step(id, number, now);
}

Duration Machine::execution_of(const Running& running, const RunningLane& lane,
                               const Job& job) const {
  const pipeline::PipelineFunction& function = *functions_.at(running.function);
  const SliceShape& shape = places_.at(lane.slice).slice.shape;
  const auto slower = scene_.machine.slowdown.find(running.function);
  const double factor = slower == scene_.machine.slowdown.end() ? 1 : slower->second;
  double sum_s = 0;
  for (const InvocationId request : job.requests) {
    const uint64_t who = request.high * 0x9e3779b97f4a7c15ULL + request.low;
    for (const size_t component : lane.components) {
      const pipeline::ComponentProfile& profile = function.profile.components[component];
      if (chance(scene_.seed, who, 2 * component) >= profile.probability) continue;
      const auto time = pipeline::time_on(profile, shape, function.shapes);
      CHECK(time.has_value(), "a component without a time");
      const double spread =
          scene_.machine.spread * (2 * chance(scene_.seed, who, 2 * component + 1) - 1);
      sum_s += to_seconds(*time) * (1 + spread) * factor;
    }
  }
  return from_seconds(sum_s);
}

}  // namespace lambent::slice_simulator
