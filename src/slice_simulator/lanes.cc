#include "slice_simulator/lanes.h"

#include <set>

#include "base/check.h"
#include "pipeline/lane_cost.h"

namespace lambent::slice_simulator {

Wiring wire(const pipeline::PipelineFunction& function, const pipeline::Placement& placement) {
  const pipeline::Dag& dag = function.dag;
  Wiring wiring;
  std::vector<size_t> lane_of(dag.components.size(), 0);
  for (size_t stage = 0; stage < placement.partition.stages.size(); ++stage) {
    for (const pipeline::Lane& lane : placement.partition.stages[stage].lanes) {
      RunningLane running;
      running.components = lane.components;
      running.slice = placement.slices.at(wiring.lanes.size());
      running.stage = stage;
      for (const size_t component : lane.components) {
        const pipeline::ComponentProfile& profile = function.profile.components.at(component);
        lane_of.at(component) = wiring.lanes.size();
        running.weights += profile.weights;
      }
      running.memory = pipeline::memory_of(function, lane);
      wiring.lanes.push_back(std::move(running));
    }
  }
  CHECK(placement.slices.size() == wiring.lanes.size(), "a placement without a slice for a lane");
  std::set<std::pair<size_t, size_t>> known;  // component, receiving lane
  const auto join = [&](size_t component, size_t to) {
    const size_t from = lane_of[component];
    if (from == to || !known.insert({component, to}).second) return;
    Channel channel;
    channel.from = from;
    channel.to = to;
    channel.bytes = function.profile.components[component].output;
    wiring.lanes[from].sends.push_back(wiring.channels.size());
    wiring.lanes[to].receives.push_back(wiring.channels.size());
    wiring.channels.push_back(channel);
  };
  for (size_t component = 0; component < dag.components.size(); ++component) {
    for (const pipeline::Source& source : dag.components[component].inputs) {
      if (source.kind == pipeline::Source::Kind::kComponent) {
        join(source.index, lane_of[component]);
      }
    }
  }
  for (const size_t output : dag.outputs) join(output, wiring.lanes.size() - 1);
  return wiring;
}

}  // namespace lambent::slice_simulator
