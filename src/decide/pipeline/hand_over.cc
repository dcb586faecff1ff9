#include "decide/pipeline/hand_over.h"

#include <algorithm>
#include <tuple>

namespace lambent::pipeline {

std::vector<const StageProcess*> stage_processes_of(const Partition& partition) {
  std::vector<const StageProcess*> stage_processes;
  for (const Stage& stage : partition.stages) {
    for (const StageProcess& stage_process : stage.stage_processes)
      stage_processes.push_back(&stage_process);
  }
  return stage_processes;
}

std::vector<Process> processes_of(const Placement& placement) {
  std::vector<Process> processes;
  size_t stage_process = 0;
  for (size_t stage = 0; stage < placement.partition.stages.size(); ++stage) {
    for (size_t i = 0; i < placement.partition.stages[stage].stage_processes.size();
         ++i, ++stage_process) {
      const size_t replicas = placement.replicas_of(stage_process);
      for (size_t replica = 0; replica < replicas; ++replica) {
        processes.push_back({stage_process, stage, replica, replicas});
      }
    }
  }
  return processes;
}

std::vector<HandOver> hand_overs(const Dag& dag, const Partition& partition) {
  const std::vector<const StageProcess*> stage_processes = stage_processes_of(partition);
  std::vector<size_t> stage_process_of(dag.components.size());
  for (size_t stage_process = 0; stage_process < stage_processes.size(); ++stage_process) {
    for (const size_t component : stage_processes[stage_process]->components)
      stage_process_of[component] = stage_process;
  }
  std::vector<HandOver> found;
  const auto need = [&](size_t component, size_t to) {
    if (stage_process_of[component] != to)
      found.push_back({component, stage_process_of[component], to});
  };
  for (size_t i = 0; i < dag.components.size(); ++i) {
    for (const Source& source : dag.components[i].inputs) {
      if (source.kind == Source::Kind::kComponent) need(source.index, stage_process_of[i]);
    }
  }
  for (const size_t output : dag.outputs) need(output, gathering_stage_process(partition));
  std::sort(found.begin(), found.end(), [](const HandOver& a, const HandOver& b) {
    return std::tie(a.to, a.component) < std::tie(b.to, b.component);
  });
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace lambent::pipeline
