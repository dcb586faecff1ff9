#include "node/worker/stage_process_plan.h"

#include <set>
#include <utility>

#include <nlohmann/json.hpp>

namespace lambent::worker {

using pipeline::Source;

StageProcessPlans plan_stage_processes(const pipeline::Dag& dag,
                                       const pipeline::Placement& placement) {
  StageProcessPlans plans;
  const std::vector<const pipeline::StageProcess*> stage_processes =
      pipeline::stage_processes_of(placement.partition);
  std::vector<size_t> stage_process_of(dag.components.size());
  std::vector<size_t> first_of;  // of each stage process's replicas
  for (const pipeline::Process& process : pipeline::processes_of(placement)) {
    if (process.replica == 0) first_of.push_back(plans.stage_processes.size());
    const std::vector<size_t>& components = stage_processes[process.stage_process]->components;
    for (const size_t component : components) stage_process_of[component] = process.stage_process;
    plans.stage_processes.push_back({.components = components, .process = process});
  }
  const auto each_replica = [&](size_t stage_process, const auto& act) {
    for (size_t i = 0; i < placement.replicas_of(stage_process); ++i)
      act(first_of[stage_process] + i);
  };
  std::set<std::pair<size_t, size_t>> sent;  // values, and the stage processes that they go to
  const auto send = [&](size_t value, size_t to_stage_process) {
    const size_t from_stage_process = stage_process_of[value];
    if (from_stage_process == to_stage_process || !sent.insert({value, to_stage_process}).second)
      return;
    each_replica(from_stage_process, [&](size_t from) {
      each_replica(to_stage_process, [&](size_t to) {
        plans.stage_processes[from].sends.push_back(plans.channels.size());
        plans.stage_processes[to].receives.push_back(plans.channels.size());
        plans.channels.push_back({value, from, to});
      });
    });
  };
  for (size_t component = 0; component < dag.components.size(); ++component) {
    const size_t stage_process = stage_process_of[component];
    for (const Source& source : dag.components[component].inputs) {
      if (source.kind == Source::Kind::kInput) {
        each_replica(stage_process,
                     [&](size_t at) { plans.stage_processes[at].needs_events = true; });
      } else {
        send(source.index, stage_process);
      }
    }
  }
  const size_t last = pipeline::gathering_stage_process(placement.partition);
  each_replica(last, [&](size_t at) {
    plans.stage_processes[at].gathers = plans.stage_processes[at].needs_events = true;
  });
  for (const size_t output : dag.outputs) send(output, last);
  return plans;
}

uint32_t slots_of(const StageProcessPlans& plans, size_t channel) {
  const size_t replicas = plans.stage_processes[plans.channels[channel].to].process.replicas;
  return static_cast<uint32_t>(pipeline::slots_of_channel(replicas));
}

std::string channel_path(size_t channel) {
  return "/opt/lambent/channels/" + std::to_string(channel);
}

std::string stage_json(const StageProcessPlans& plans, size_t stage_process,
                       const pipeline::Dag& dag, const std::string& handler) {
  using nlohmann::json;
  const StageProcessPlan& plan = plans.stage_processes[stage_process];
  const auto name_of = [&dag](size_t component) { return dag.components[component].name; };
  json text = {{"handler", handler},
               {"stage_process", plan.process.stage_process},
               // This and in_hand: what these were called in the version before. The package of a
               // function may carry a lambent.pipeline of that version.
               {"lane", plan.process.stage_process},
               {"components", json::array()},
               {"receives", json::array()},
               {"sends", json::array()},
               {"outputs", json::array()},
               {"in_flight", pipeline::kJobsInFlight},
               {"in_hand", pipeline::kJobsInFlight}};
  for (const size_t component : plan.components) text["components"].push_back(name_of(component));
  for (const size_t channel : plan.receives) {
    text["receives"].push_back(
        {{"channel", channel_path(channel)}, {"value", name_of(plans.channels[channel].value)}});
  }
  for (const size_t channel : plan.sends) {
    const StageProcessChannel& to = plans.channels[channel];
    text["sends"].push_back({{"channel", channel_path(channel)},
                             {"value", name_of(to.value)},
                             {"to", plans.stage_processes[to.to].process.stage_process}});
  }
  if (plan.gathers) {
    for (const size_t output : dag.outputs) text["outputs"].push_back(name_of(output));
  }
  return text.dump();
}

}  // namespace lambent::worker
