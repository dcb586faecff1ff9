// Machine, the jobs: how each passes through its instance's stage processes.
#include <algorithm>
#include <map>
#include <utility>

#include "core/base/check.h"
#include "decide/pipeline/profile.h"
#include "sim/slice_simulator/chance.h"
#include "sim/slice_simulator/machine.h"

namespace lambent::slice_simulator {

void Machine::give(const slice_scheduling::GiveJob& wanted, Instant now) {
  const auto found = instances_.find(wanted.instance);
  if (found == instances_.end()) return;
  Running& running = found->second;
  if (running.presence != Presence::kLoaded) {
    complain("a job was given to an instance that is not loaded", now);
  }
  Job& job = running.jobs[wanted.job];
  job.requests = wanted.requests;
  job.alone = wanted.alone;
  job.number = running.jobs_given++;
  const size_t stages = running.wiring.stage_processes.back().stage + 1;
  job.execution.resize(stages);
  job.transfer.resize(stages);
  job.times.given = now;
  for (RunningStageProcess& stage_process : running.wiring.stage_processes) {
    if (!stage_process.process.takes(job.number)) continue;
    stage_process.jobs.push_back(wanted.job);
    ++job.stage_processes_left;
  }
  for (size_t i = 0; i < running.wiring.stage_processes.size(); ++i) take(wanted.instance, i, now);
}

// The stage process begins with jobs as long as it may have more in flight.
void Machine::take(InstanceId id, size_t number, Instant now) {
  Running& running = instances_.at(id);
  RunningStageProcess& stage_process = running.wiring.stage_processes[number];
  while (!stage_process.jobs.empty()) {
    const JobId job = stage_process.jobs.front();
    const bool alone = running.jobs.at(job).alone || stage_process.at_alone > 0;
    if (stage_process.in_flight >= (alone ? 1 : pipeline::kJobsInFlight)) return;
    stage_process.jobs.pop_front();
    ++stage_process.in_flight;
    stage_process.at_alone += running.jobs.at(job).alone;
    pass_on(id, number, 0, job, now);
  }
}

// To a part of the stage process, which begins with it if it has nothing else.
void Machine::pass_on(InstanceId id, size_t number, size_t part_number, JobId job, Instant now) {
  instances_.at(id).wiring.stage_processes[number].parts[part_number].jobs.push_back(job);
  step(id, number, part_number, now);
}

// A part that is neither in the middle of a step nor waits begins with the one that it is at.
void Machine::step(InstanceId id, size_t number, size_t part_number, Instant now) {
  Running& running = instances_.at(id);
  RunningStageProcess& stage_process = running.wiring.stage_processes[number];
  Part& part = stage_process.parts[part_number];
  if (part.jobs.empty() || part.begun || part.waiting) return;
  if (part.at == part.steps.size()) return part_done(id, number, part_number, now);
  const Step& step = part.steps[part.at];
  const Job& job = running.jobs.at(part.jobs.front());
  switch (step.kind) {
    case Step::Kind::kReceive:
      return receive(id, number, part_number, now);
    case Step::Kind::kSend: {
      const Channel& channel = running.wiring.channels[step.channel_of(job.number)];
      if (channel.values.size() >= channel.slots) {
        part.waiting = true;
        return;
      }
      begin_work(stage_process, part, now);
      return at(now + scene_.machine.handover, Happening::kHandedOver, id, number, part_number);
    }
    case Step::Kind::kEdge:
      begin_work(stage_process, part, now);
      return at(now + scene_.machine.edge / 2, Happening::kStepDone, id, number, part_number);
    case Step::Kind::kExecute:
      begin_work(stage_process, part, now);
      return at(now + execution_of(running, stage_process, job), Happening::kStepDone, id, number,
                part_number);
  }
}

void Machine::begin_work(RunningStageProcess& stage_process, Part& part, Instant now) {
  part.begun = true;
  part.since = now;
  if (stage_process.working++ == 0) work(stage_process, true, now);
}

// The step that took until now is over, and what it took counts as `kind`.
void Machine::end_step(InstanceId id, size_t number, size_t part_number, Instant now,
                       Duration took) {
  Running& running = instances_.at(id);
  RunningStageProcess& stage_process = running.wiring.stage_processes[number];
  Part& part = stage_process.parts[part_number];
  Job& job = running.jobs.at(part.jobs.front());
  if (part.steps[part.at].kind == Step::Kind::kExecute) {
    job.execution[stage_process.stage] = std::max(job.execution[stage_process.stage], took);
  } else {
    job.transfer[stage_process.stage] += took;
  }
  if (--stage_process.working == 0) work(stage_process, false, now);
  part.begun = false;
  ++part.at;
}

void Machine::receive(InstanceId id, size_t number, size_t part_number, Instant now) {
  Running& running = instances_.at(id);
  RunningStageProcess& stage_process = running.wiring.stage_processes[number];
  Part& part = stage_process.parts[part_number];
  const Job& job = running.jobs.at(part.jobs.front());
  const size_t from = part.steps[part.at].channel_of(job.number);
  Channel& channel = running.wiring.channels[from];
  if (channel.values.empty() || channel.values.front().job != part.jobs.front()) {
    part.waiting = true;
    return;
  }
  begin_work(stage_process, part, now);
  Value& value = channel.values.front();
  value.receiving = true;
  value.overlapped = !value.whole;
  const Place& place = places_.at(stage_process.slice);
  value.receive = links_.start(channel.bytes * job.requests.size(), scene_.machine.copy_gb_per_s,
                               {place.gpu_in, place.node_in}, now);
  copies_[value.receive] = {id, from, Copying::What::kReceive};
}

// The part of this stage process that is at this channel for the job; there is one.
size_t Machine::part_at(const Running& running, const RunningStageProcess& stage_process,
                        size_t channel) {
  for (size_t i = 0; i < stage_process.parts.size(); ++i) {
    const Part& part = stage_process.parts[i];
    if (part.jobs.empty() || part.at >= part.steps.size()) continue;
    const Step& step = part.steps[part.at];
    if (step.channels.empty()) continue;
    if (step.channel_of(running.jobs.at(part.jobs.front()).number) == channel) return i;
  }
  return stage_process.parts.size();
}

// Called when the receiver has copied, when the sender has, and when the last piece has followed.
void Machine::received(InstanceId id, size_t number, Instant now) {
  Running& running = instances_.at(id);
  Channel& channel = running.wiring.channels[number];
  if (channel.values.empty()) return;
  Value& value = channel.values.front();
  if (!value.receiving || !value.received || !value.whole) return;
  if (std::exchange(value.overlapped, false)) {
    // The last piece can be copied on only after it was copied in.
    const double piece_s =
        static_cast<double>(std::min(channel.bytes, scene_.machine.chunk).count) /
        (scene_.machine.copy_gb_per_s * 1e9);
    return at(now + from_seconds(piece_s), Happening::kReceived, id, number);
  }
  channel.values.pop_front();
  RunningStageProcess& stage_process = running.wiring.stage_processes[channel.to];
  const size_t receiver = part_at(running, stage_process, number);
  end_step(id, channel.to, receiver, now, now - stage_process.parts[receiver].since);
  const size_t from = channel.from, to = channel.to;
  wake(id, from, number, now);
  step(id, to, receiver, now);
}

// There is room in the channel, and what a hand-over takes beside its copies is over.
void Machine::hand_on(InstanceId id, size_t number, size_t part_number, Instant now) {
  Running& running = instances_.at(id);
  RunningStageProcess& stage_process = running.wiring.stage_processes[number];
  const Part& part = stage_process.parts[part_number];
  const Job& job = running.jobs.at(part.jobs.front());
  const size_t to = part.steps[part.at].channel_of(job.number);
  Channel& channel = running.wiring.channels[to];
  const Place& place = places_.at(stage_process.slice);
  Value& value = channel.values.emplace_back();
  value.job = part.jobs.front();
  value.send = links_.start(channel.bytes * job.requests.size(), scene_.machine.copy_gb_per_s,
                            {place.gpu_out, place.node_out}, now);
  copies_[value.send] = {id, to, Copying::What::kSend};
  wake(id, channel.to, to, now);
}

// The part of this stage process that waits for something to happen in this channel, if one does.
void Machine::wake(InstanceId id, size_t number, size_t channel, Instant now) {
  Running& running = instances_.at(id);
  RunningStageProcess& stage_process = running.wiring.stage_processes[number];
  const size_t part = part_at(running, stage_process, channel);
  if (part == stage_process.parts.size() || !stage_process.parts[part].waiting) return;
  stage_process.parts[part].waiting = false;
  step(id, number, part, now);
}

void Machine::sent(InstanceId id, size_t number, Instant now) {
  Running& running = instances_.at(id);
  Channel& channel = running.wiring.channels[number];
  Value& value = channel.values.back();
  value.send = 0;
  value.whole = true;
  const size_t from = channel.from;
  RunningStageProcess& stage_process = running.wiring.stage_processes[from];
  const size_t sender = part_at(running, stage_process, number);
  // What the receiver copies at the same time is not counted twice.
  Instant alone_until = now;
  if (value.receiving) {
    const RunningStageProcess& receiver = running.wiring.stage_processes[channel.to];
    alone_until = receiver.parts[part_at(running, receiver, number)].since;
  }
  end_step(id, from, sender, now, alone_until - stage_process.parts[sender].since);
  if (channel.values.size() == 1) received(id, number, now);
  step(id, from, sender, now);
}

void Machine::part_done(InstanceId id, size_t number, size_t part_number, Instant now) {
  Running& running = instances_.at(id);
  RunningStageProcess& stage_process = running.wiring.stage_processes[number];
  Part& part = stage_process.parts[part_number];
  const JobId job = part.jobs.front();
  part.jobs.pop_front();
  part.at = 0;
  if (part_number + 1 < stage_process.parts.size()) {
    pass_on(id, number, part_number + 1, job, now);
  } else {
    stage_process_done(id, number, job, now);
  }
  step(id, number, part_number, now);
}

void Machine::stage_process_done(InstanceId id, size_t number, JobId job_id, Instant now) {
  Running& running = instances_.at(id);
  RunningStageProcess& stage_process = running.wiring.stage_processes[number];
  Job& job = running.jobs.at(job_id);
  --stage_process.in_flight;
  stage_process.at_alone -= job.alone;
  if (--job.stage_processes_left == 0) {
    for (const Duration time : job.execution) job.times.execution += time;
    for (const Duration time : job.transfer) job.times.transfer += time;
    const Duration execution = now - job.times.given;
    finished_[job_id] = job.times;
    running.jobs.erase(job_id);
    happened_.push_back(slice_scheduling::JobFinished{job_id, execution});
  }
  take(id, number, now);
}

Duration Machine::execution_of(const Running& running, const RunningStageProcess& stage_process,
                               const Job& job) const {
  const pipeline::PipelineFunction& function = *functions_.at(running.function);
  const SliceShape& shape = places_.at(stage_process.slice).slice.shape;
  const auto slower = scene_.machine.slowdown.find(running.function);
  const double factor = slower == scene_.machine.slowdown.end() ? 1 : slower->second;
  double sum_s = 0;
  std::map<size_t, std::pair<size_t, double>> batches;  // by component: how many, one by one
  for (const InvocationId request : job.requests) {
    const uint64_t who = request.high * 0x9e3779b97f4a7c15ULL + request.low;
    for (const size_t component : stage_process.components) {
      const pipeline::ComponentProfile& profile = function.profile.components[component];
      if (chance(scene_.seed, who, 2 * component) >= profile.probability) continue;
      const auto time = pipeline::time_on(profile, shape, function.shapes);
      CHECK(time.has_value(), "a component without a time");
      const double spread =
          scene_.machine.spread * (2 * chance(scene_.seed, who, 2 * component + 1) - 1);
      const double alone_s = to_seconds(*time) * (1 + spread) * factor;
      if (profile.batch_times_by_shape.empty()) {
        sum_s += alone_s;
        continue;
      }
      auto& [ran, together_s] = batches[component];
      ++ran;
      together_s += alone_s;
    }
  }
  for (const auto& [component, batch] : batches) {
    const auto& [ran, alone_s] = batch;
    const double as_one =
        pipeline::batch_factor(function.profile.components[component], shape, function.shapes, ran);
    sum_s += alone_s * as_one / static_cast<double>(ran);
  }
  return from_seconds(sum_s);
}

}  // namespace lambent::slice_simulator
