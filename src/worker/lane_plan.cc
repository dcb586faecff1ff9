#include "worker/lane_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

namespace lambent::worker {

using pipeline::Source;

LanePlans plan_lanes(const pipeline::Dag& dag, const pipeline::Partition& partition) {
  LanePlans plans;
  std::vector<size_t> lane_of(dag.components.size());
  for (const pipeline::Stage& stage : partition.stages) {
    for (const pipeline::Lane& lane : stage.lanes) {
      for (const size_t component : lane.components) lane_of[component] = plans.lanes.size();
      plans.lanes.push_back({.components = lane.components});
    }
  }
  std::set<std::pair<size_t, size_t>> sent;  // values, and the lanes that they go to
  const auto send = [&](size_t value, size_t to) {
    const size_t from = lane_of[value];
    if (from == to || !sent.insert({value, to}).second) return;
    plans.lanes[from].sends.push_back(plans.channels.size());
    plans.lanes[to].receives.push_back(plans.channels.size());
    plans.channels.push_back({value, from, to});
  };
  for (size_t component = 0; component < dag.components.size(); ++component) {
    const size_t lane = lane_of[component];
    for (const Source& source : dag.components[component].inputs) {
      if (source.kind == Source::Kind::kInput) {
        plans.lanes[lane].needs_events = true;
      } else {
        send(source.index, lane);
      }
    }
  }
  const size_t last = *std::max_element(dag.outputs.begin(), dag.outputs.end());
  LanePlan& gatherer = plans.lanes[lane_of[last]];
  gatherer.gathers = gatherer.needs_events = true;
  for (const size_t output : dag.outputs) send(output, lane_of[last]);
  return plans;
}

std::string channel_path(size_t channel) {
  return "/opt/lambent/channels/" + std::to_string(channel);
}

std::string stage_json(const LanePlans& plans, size_t lane, const pipeline::Dag& dag,
                       const std::string& handler) {
  using nlohmann::json;
  const LanePlan& plan = plans.lanes[lane];
  const auto name_of = [&dag](size_t component) { return dag.components[component].name; };
  json text = {{"handler", handler},        {"lane", lane},           {"components", json::array()},
               {"receives", json::array()}, {"sends", json::array()}, {"outputs", json::array()}};
  for (const size_t component : plan.components) text["components"].push_back(name_of(component));
  for (const size_t channel : plan.receives) {
    text["receives"].push_back(
        {{"channel", channel_path(channel)}, {"value", name_of(plans.channels[channel].value)}});
  }
  for (const size_t channel : plan.sends) {
    const LaneChannel& to = plans.channels[channel];
    text["sends"].push_back(
        {{"channel", channel_path(channel)}, {"value", name_of(to.value)}, {"to", to.to}});
  }
  if (plan.gathers) {
    for (const size_t output : dag.outputs) text["outputs"].push_back(name_of(output));
  }
  return text.dump();
}

}  // namespace lambent::worker
