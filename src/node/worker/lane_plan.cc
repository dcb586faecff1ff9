#include "node/worker/lane_plan.h"

#include <set>
#include <utility>

#include <nlohmann/json.hpp>

namespace lambent::worker {

using pipeline::Source;

LanePlans plan_lanes(const pipeline::Dag& dag, const pipeline::Placement& placement) {
  LanePlans plans;
  const std::vector<const pipeline::Lane*> lanes = pipeline::lanes_of(placement.partition);
  std::vector<size_t> lane_of(dag.components.size());
  std::vector<size_t> first_of;  // of each lane's replicas
  for (const pipeline::Process& process : pipeline::processes_of(placement)) {
    if (process.replica == 0) first_of.push_back(plans.lanes.size());
    const std::vector<size_t>& components = lanes[process.lane]->components;
    for (const size_t component : components) lane_of[component] = process.lane;
    plans.lanes.push_back({.components = components, .process = process});
  }
  const auto each_replica = [&](size_t lane, const auto& act) {
    for (size_t i = 0; i < placement.replicas_of(lane); ++i) act(first_of[lane] + i);
  };
  std::set<std::pair<size_t, size_t>> sent;  // values, and the lanes that they go to
  const auto send = [&](size_t value, size_t to_lane) {
    const size_t from_lane = lane_of[value];
    if (from_lane == to_lane || !sent.insert({value, to_lane}).second) return;
    each_replica(from_lane, [&](size_t from) {
      each_replica(to_lane, [&](size_t to) {
        plans.lanes[from].sends.push_back(plans.channels.size());
        plans.lanes[to].receives.push_back(plans.channels.size());
        plans.channels.push_back({value, from, to});
      });
    });
  };
  for (size_t component = 0; component < dag.components.size(); ++component) {
    const size_t lane = lane_of[component];
    for (const Source& source : dag.components[component].inputs) {
      if (source.kind == Source::Kind::kInput) {
        each_replica(lane, [&](size_t at) { plans.lanes[at].needs_events = true; });
      } else {
        send(source.index, lane);
      }
    }
  }
  const size_t last = pipeline::gathering_lane(placement.partition);
  each_replica(last,
               [&](size_t at) { plans.lanes[at].gathers = plans.lanes[at].needs_events = true; });
  for (const size_t output : dag.outputs) send(output, last);
  return plans;
}

uint32_t slots_of(const LanePlans& plans, size_t channel) {
  const size_t replicas = plans.lanes[plans.channels[channel].to].process.replicas;
  return static_cast<uint32_t>(pipeline::slots_of_channel(replicas));
}

std::string channel_path(size_t channel) {
  return "/opt/lambent/channels/" + std::to_string(channel);
}

std::string stage_json(const LanePlans& plans, size_t lane, const pipeline::Dag& dag,
                       const std::string& handler) {
  using nlohmann::json;
  const LanePlan& plan = plans.lanes[lane];
  const auto name_of = [&dag](size_t component) { return dag.components[component].name; };
  json text = {{"handler", handler},
               {"lane", plan.process.lane},
               {"components", json::array()},
               {"receives", json::array()},
               {"sends", json::array()},
               {"outputs", json::array()},
               {"in_hand", pipeline::kJobsInHand}};
  for (const size_t component : plan.components) text["components"].push_back(name_of(component));
  for (const size_t channel : plan.receives) {
    text["receives"].push_back(
        {{"channel", channel_path(channel)}, {"value", name_of(plans.channels[channel].value)}});
  }
  for (const size_t channel : plan.sends) {
    const LaneChannel& to = plans.channels[channel];
    text["sends"].push_back({{"channel", channel_path(channel)},
                             {"value", name_of(to.value)},
                             {"to", plans.lanes[to.to].process.lane}});
  }
  if (plan.gathers) {
    for (const size_t output : dag.outputs) text["outputs"].push_back(name_of(output));
  }
  return text.dump();
}

}  // namespace lambent::worker
