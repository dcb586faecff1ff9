#include "sim/slice_simulator/stage_processes.h"

#include <algorithm>

#include "core/base/check.h"
#include "decide/pipeline/stage_process_cost.h"

namespace lambent::slice_simulator {
namespace {

using pipeline::Source;

enum { kBegin, kWork, kFinish };  // parts

bool needs(const pipeline::Dag& dag, size_t component, Source source) {
  const auto& inputs = dag.components[component].inputs;
  return std::find(inputs.begin(), inputs.end(), source) != inputs.end();
}

bool has_input(const pipeline::Dag& dag, const std::vector<size_t>& components) {
  return std::any_of(components.begin(), components.end(), [&](size_t component) {
    const auto& inputs = dag.components[component].inputs;
    return std::any_of(inputs.begin(), inputs.end(),
                       [](const Source& source) { return source.kind == Source::Kind::kInput; });
  });
}

// In which part a stage process receives a value: the input of what it runs first ahead of its
// turn, that of others when they run, and what it only answers with at the end.
size_t part_of_receive(const pipeline::Dag& dag, const std::vector<size_t>& components,
                       size_t value) {
  const Source source{Source::Kind::kComponent, value};
  if (needs(dag, components.front(), source)) return kBegin;
  const bool needed = std::any_of(components.begin(), components.end(),
                                  [&](size_t each) { return needs(dag, each, source); });
  return needed ? kWork : kFinish;
}

}  // namespace

Wiring wire(const pipeline::PipelineFunction& function, const pipeline::Placement& placement) {
  const pipeline::Dag& dag = function.dag;
  Wiring wiring;
  const std::vector<const pipeline::StageProcess*> stage_processes =
      pipeline::stage_processes_of(placement.partition);
  std::vector<size_t> first_of;  // of each stage process's processes
  for (const pipeline::Process& process : pipeline::processes_of(placement)) {
    const pipeline::StageProcess& stage_process = *stage_processes[process.stage_process];
    if (process.replica == 0) first_of.push_back(wiring.stage_processes.size());
    RunningStageProcess running;
    running.components = stage_process.components;
    running.slice = placement.slices.at(wiring.stage_processes.size());
    running.stage = process.stage;
    running.process = process;
    for (const size_t component : stage_process.components) {
      running.weights += function.profile.components.at(component).weights;
    }
    running.memory = pipeline::memory_of(function, stage_process);
    if (has_input(dag, stage_process.components)) {
      running.parts[kBegin].steps.push_back({Step::Kind::kEdge});
    }
    wiring.stage_processes.push_back(std::move(running));
  }
  CHECK(placement.slices.size() == wiring.stage_processes.size(),
        "a placement without a slice for a stage process");
  std::vector<std::vector<Step>> sends(wiring.stage_processes.size());  // of what is not made last
  for (const pipeline::HandOver& each : pipeline::hand_overs(dag, placement.partition)) {
    const size_t senders = placement.replicas_of(each.from);
    const size_t receivers = placement.replicas_of(each.to);
    std::vector<std::vector<size_t>> channels(senders, std::vector<size_t>(receivers));
    for (size_t from = 0; from < senders; ++from) {
      for (size_t to = 0; to < receivers; ++to) {
        Channel channel;
        channel.from = first_of[each.from] + from;
        channel.to = first_of[each.to] + to;
        channel.bytes = function.profile.components[each.component].output;
        channel.slots = pipeline::slots_of_channel(receivers);
        channels[from][to] = wiring.channels.size();
        wiring.channels.push_back(channel);
      }
      RunningStageProcess& sender = wiring.stage_processes[first_of[each.from] + from];
      const bool is_last = sender.components.back() == each.component;
      auto& steps = is_last ? sender.parts[kFinish].steps : sends[first_of[each.from] + from];
      steps.push_back({Step::Kind::kSend, channels[from]});
    }
    for (size_t to = 0; to < receivers; ++to) {
      RunningStageProcess& receiver = wiring.stage_processes[first_of[each.to] + to];
      Step step{Step::Kind::kReceive, {}};
      for (size_t from = 0; from < senders; ++from) step.channels.push_back(channels[from][to]);
      receiver.parts[part_of_receive(dag, receiver.components, each.component)].steps.push_back(
          std::move(step));
    }
  }
  for (size_t i = 0; i < wiring.stage_processes.size(); ++i) {
    RunningStageProcess& stage_process = wiring.stage_processes[i];
    std::vector<Step>& work = stage_process.parts[kWork].steps;
    work.push_back({Step::Kind::kExecute});
    work.insert(work.end(), sends[i].begin(), sends[i].end());
    // What it makes last goes on before it waits for what others made.
    std::stable_partition(stage_process.parts[kFinish].steps.begin(),
                          stage_process.parts[kFinish].steps.end(),
                          [](const Step& step) { return step.kind == Step::Kind::kSend; });
    if (stage_process.process.stage_process ==
        pipeline::gathering_stage_process(placement.partition)) {
      stage_process.parts[kFinish].steps.push_back({Step::Kind::kEdge});
    }
  }
  return wiring;
}

}  // namespace lambent::slice_simulator
