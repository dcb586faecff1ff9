#include "decide/pipeline/hand_over.h"

#include <algorithm>
#include <tuple>

namespace lambent::pipeline {

std::vector<const Lane*> lanes_of(const Partition& partition) {
  std::vector<const Lane*> lanes;
  for (const Stage& stage : partition.stages) {
    for (const Lane& lane : stage.lanes) lanes.push_back(&lane);
  }
  return lanes;
}

std::vector<Process> processes_of(const Placement& placement) {
  std::vector<Process> processes;
  size_t lane = 0;
  for (size_t stage = 0; stage < placement.partition.stages.size(); ++stage) {
    for (size_t i = 0; i < placement.partition.stages[stage].lanes.size(); ++i, ++lane) {
      const size_t replicas = placement.replicas_of(lane);
      for (size_t replica = 0; replica < replicas; ++replica) {
        processes.push_back({lane, stage, replica, replicas});
      }
    }
  }
  return processes;
}

std::vector<HandOver> hand_overs(const Dag& dag, const Partition& partition) {
  const std::vector<const Lane*> lanes = lanes_of(partition);
  std::vector<size_t> lane_of(dag.components.size());
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    for (const size_t component : lanes[lane]->components) lane_of[component] = lane;
  }
  std::vector<HandOver> found;
  const auto need = [&](size_t component, size_t to) {
    if (lane_of[component] != to) found.push_back({component, lane_of[component], to});
  };
  for (size_t i = 0; i < dag.components.size(); ++i) {
    for (const Source& source : dag.components[i].inputs) {
      if (source.kind == Source::Kind::kComponent) need(source.index, lane_of[i]);
    }
  }
  for (const size_t output : dag.outputs) need(output, gathering_lane(partition));
  std::sort(found.begin(), found.end(), [](const HandOver& a, const HandOver& b) {
    return std::tie(a.to, a.component) < std::tie(b.to, b.component);
  });
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace lambent::pipeline
