#include "slice_simulator/lanes.h"

#include "base/check.h"
#include "pipeline/lane_cost.h"

namespace lambent::slice_simulator {

Wiring wire(const pipeline::PipelineFunction& function, const pipeline::Placement& placement) {
  const pipeline::Dag& dag = function.dag;
  Wiring wiring;
  const std::vector<const pipeline::Lane*> lanes = pipeline::lanes_of(placement.partition);
  std::vector<size_t> first_of;  // of each lane's processes
  for (const pipeline::Process& process : pipeline::processes_of(placement)) {
    const pipeline::Lane& lane = *lanes[process.lane];
    if (process.replica == 0) first_of.push_back(wiring.lanes.size());
    RunningLane running;
    running.components = lane.components;
    running.slice = placement.slices.at(wiring.lanes.size());
    running.stage = process.stage;
    running.process = process;
    for (const size_t component : lane.components) {
      running.weights += function.profile.components.at(component).weights;
    }
    running.memory = pipeline::memory_of(function, lane);
    wiring.lanes.push_back(std::move(running));
  }
  CHECK(placement.slices.size() == wiring.lanes.size(), "a placement without a slice for a lane");
  for (const pipeline::HandOver& each : pipeline::hand_overs(dag, placement.partition)) {
    const size_t senders = placement.replicas_of(each.from);
    const size_t receivers = placement.replicas_of(each.to);
    std::vector<std::vector<size_t>> channels(senders, std::vector<size_t>(receivers));
    for (size_t from = 0; from < senders; ++from) {
      RunningLane& sender = wiring.lanes[first_of[each.from] + from];
      for (size_t to = 0; to < receivers; ++to) {
        Channel channel;
        channel.from = first_of[each.from] + from;
        channel.to = first_of[each.to] + to;
        channel.bytes = function.profile.components[each.component].output;
        channels[from][to] = wiring.channels.size();
        wiring.channels.push_back(channel);
      }
      sender.sends.push_back(channels[from]);
    }
    for (size_t to = 0; to < receivers; ++to) {
      auto& mine = wiring.lanes[first_of[each.to] + to].receives.emplace_back();
      for (size_t from = 0; from < senders; ++from) mine.push_back(channels[from][to]);
    }
  }
  return wiring;
}

}  // namespace lambent::slice_simulator
