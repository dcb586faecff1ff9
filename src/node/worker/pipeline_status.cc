#include "node/worker/pipeline_status.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "decide/pipeline/hand_over.h"
#include "decide/pipeline/pipeline_json.h"
#include "node/worker/isolation_choice.h"

namespace lambent::worker {
namespace {

using nlohmann::json;
using slice_scheduling::AllocationMode;
using slice_scheduling::Instance;
using slice_scheduling::LoadState;
using slice_scheduling::SliceWorld;

const char* word_for(AllocationMode allocation_mode) {
  return allocation_mode == AllocationMode::kExclusive ? "exclusive" : "time_sharing";
}

const char* word_for(LoadState load_state) {
  switch (load_state) {
    case LoadState::kStarting:
      return "starting";
    case LoadState::kLoaded:
      return "loaded";
    case LoadState::kUnloading:
      return "unloading";
    case LoadState::kUnloaded:
      return "unloaded";
    case LoadState::kLoading:
      return "loading";
    case LoadState::kStopping:
      break;
  }
  return "stopping";
}

// What jobs of several requests take there, where that was measured.
json batches_json(const pipeline::Placement& placement) {
  json batches = json::array();
  for (const pipeline::BatchTiming& each : placement.batches) {
    batches.push_back({{"requests", each.requests},
                       {"latency_ms", to_milliseconds(each.latency)},
                       {"bottleneck_ms", to_milliseconds(each.bottleneck)}});
  }
  return batches;
}

json stages_json(const Instance& instance, const pipeline::Dag& dag) {
  json stages = json::array();
  const auto stage_processes = pipeline::stage_processes_of(instance.placement.partition);
  const auto processes = pipeline::processes_of(instance.placement);
  for (size_t at = 0; at < processes.size(); ++at) {
    const pipeline::Process& process = processes[at];
    json names = json::array();
    for (const size_t component : stage_processes[process.stage_process]->components) {
      names.push_back(dag.components[component].name);
    }
    json stage_process = {{"components", names},
                          {"slice", place_name(instance.placement.slices[at])}};
    if (process.replicas > 1) stage_process["replica"] = process.replica;
    if (stages.size() <= process.stage) stages.push_back(json::array());
    stages.back().push_back(std::move(stage_process));
  }
  return stages;
}

}  // namespace

std::vector<SliceStatus> PipelineStatus::slices() const {
  const SliceWorld& world = dispatcher_.world();
  std::vector<SliceStatus> all;
  for (const Slice& slice : setting_.slices) {
    SliceStatus status;
    status.slice = slice;
    const auto known = world.slices.find(slice.id);
    status.lost = known == world.slices.end() || known->second.lost;
    status.busy = instances_.busy(slice.id);
    for (const auto& [id, instance] : world.instances) {
      const auto processes = pipeline::processes_of(instance.placement);
      for (size_t at = 0; at < processes.size(); ++at) {
        if (instance.placement.slices[at] != slice.id) continue;
        status.holders.push_back({instance.function, id.value, processes[at].stage,
                                  instance.placement.partition.stages.size(), processes[at].replica,
                                  processes[at].replicas, word_for(instance.allocation_mode),
                                  word_for(instance.load_state), instance.utilisation});
      }
    }
    all.push_back(std::move(status));
  }
  return all;
}

std::string PipelineStatus::slices_json(TenantId tenant) const {
  json slices = json::array();
  for (const SliceStatus& each : this->slices()) {
    json holders = json::array();
    for (const SliceStatus::Holder& holder : each.holders) {
      const std::string name = functions_.name_for(tenant, holder.function);
      json told = {{"function", name.empty() ? json() : json(name)},
                   {"instance", holder.instance},
                   {"stage", holder.stage},
                   {"stages", holder.stages},
                   {"allocation_mode", holder.allocation_mode},
                   {"tenure", holder.allocation_mode},  // its name in the version before
                   {"state", holder.load_state},
                   {"utilisation", holder.utilisation}};
      if (holder.replicas > 1) told["replica"] = holder.replica;
      holders.push_back(std::move(told));
    }
    slices.push_back({{"slice", place_name(each.slice.id)},
                      {"uuid", each.slice.uuid},
                      {"shape", each.slice.shape.name},
                      {"multiprocessors", each.slice.shape.multiprocessors},
                      {"memory_mb", each.slice.shape.memory.count >> 20},
                      {"lost", each.lost},
                      {"busy_s", to_seconds(each.busy)},
                      {"holders", holders}});
  }
  json gpus = json::array();
  for (const auto& [gpu, busy] : instances_.gpu_time()) {
    gpus.push_back({{"gpu", gpu}, {"busy_s", to_seconds(busy)}});
  }
  return json{{"policy", dispatcher_.policy_name()}, {"slices", slices}, {"gpus", gpus}}.dump();
}

PipelineStatus::Counts PipelineStatus::counts(FunctionId function) const {
  const PipelineFunctions::Function* found = functions_.find(function);
  if (found == nullptr) return {};
  Counts counts{found->counts};
  const SliceWorld& world = dispatcher_.world();
  if (const auto state = world.functions.find(function); state != world.functions.end()) {
    counts.queued = state->second.queue.size();
    for (const slice_scheduling::InstanceId id : state->second.instances) {
      counts.running += world.instances.at(id).requests;
    }
  }
  return counts;
}

Duration PipelineStatus::turn(FunctionId function) const {
  const PipelineFunctions::Function* found = functions_.find(function);
  if (found == nullptr) return {};
  const auto& states = dispatcher_.world().functions;
  const auto state = states.find(function);
  const size_t instances = state != states.end() ? state->second.instances.size() : 0;
  return found->took.mean_or(Duration(0)) / static_cast<int64_t>(std::max<size_t>(instances, 1));
}

std::vector<FunctionName> PipelineStatus::served() const {
  std::vector<FunctionName> names;
  functions_.for_each([&](const PipelineFunctions::Function& function) {
    if (function.is_served) names.push_back(function.spec.name);
  });
  return names;
}

std::vector<FunctionName> PipelineStatus::served_later() const {
  std::vector<FunctionName> names;
  functions_.for_each([&](const PipelineFunctions::Function& function) {
    const bool is_later = function.is_served_with_lost && !function.is_served;
    if (is_later) names.push_back(function.spec.name);
  });
  return names;
}

bool PipelineStatus::serves(FunctionId id) const {
  const PipelineFunctions::Function* function = functions_.find(id);
  return function != nullptr && function->is_served;
}

Result<std::string> PipelineStatus::describe(FunctionId id) const {
  const PipelineFunctions::Function* found = functions_.find(id);
  if (found == nullptr) {
    return Error{ErrorCode::kNotFound, "there is no such pipeline function"};
  }
  const PipelineFunctions::Function& function = *found;
  const pipeline::Dag& dag = function.package->definition.dag;
  const Counts counts = this->counts(id);
  json text = {{"pipeline", json::parse(pipeline::to_json(function.package->definition))},
               {"profile", json::parse(pipeline::to_json(function.estimate.measured(), dag))},
               {"gpu_memory_mb", function.spec.gpu.memory.count >> 20},
               {"queued", counts.queued},
               {"running", counts.running},
               {"completed", counts.completed},
               {"mig_time_s", to_seconds(counts.mig_time)},
               {"instances", json::array()},
               {"slices", json::array()}};
  if (!setting_.node.empty()) text["node"] = setting_.node;
  const IsolationStatus status =
      function.status ? *function.status
                      : choose_isolation(function, dispatcher_.world(), setting_, clock_.now());
  text["isolation"] = {{"rule", pipeline::name_of(function.package->definition.isolation)},
                       {"chosen", pipeline::name_of(status.isolation)},
                       {"reasons", status.reasons},
                       {"arrivals_per_s", status.arrivals_per_s}};
  if (function.planned->slo > Duration(0)) {
    text["slo"] = {{"ms", to_milliseconds(function.planned->slo)},
                   {"in_time", counts.in_time},
                   {"late", counts.late}};
  }
  const SliceWorld& world = dispatcher_.world();
  for (const auto& [instance_id, instance] : world.instances) {
    if (instance.function != id) continue;
    text["instances"].push_back({{"instance", instance_id.value},
                                 {"allocation_mode", word_for(instance.allocation_mode)},
                                 {"tenure", word_for(instance.allocation_mode)},
                                 {"state", word_for(instance.load_state)},
                                 {"stages", stages_json(instance, dag)},
                                 {"latency_ms", to_milliseconds(instance.placement.latency)},
                                 {"bottleneck_ms", to_milliseconds(instance.placement.bottleneck)},
                                 {"batches", batches_json(instance.placement)},
                                 {"requests", instance.requests},
                                 {"utilisation", instance.utilisation}});
  }
  for (const Slice& slice : setting_.slices) {
    const auto state = world.slices.find(slice.id);
    text["slices"].push_back({{"slice", place_name(slice.id)},
                              {"uuid", slice.uuid},
                              {"shape", slice.shape.name},
                              {"multiprocessors", slice.shape.multiprocessors},
                              {"memory_mb", slice.shape.memory.count >> 20},
                              {"free", state != world.slices.end() && state->second.is_free()}});
  }
  return text.dump();
}

}  // namespace lambent::worker
