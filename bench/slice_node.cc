// slice_node: one node of slices in the simulator, described in JSON on the standard input: who
// serves given arrivals under a policy, and when. Prints one JSON object: what became of each
// request, and which instances were started. Used by bench/paper_fluidfaas_worker.py beside a real
// worker.
//
//   {"policy": "slo", "seed": 1,
//    "slices": [{"gpu": 0, "shape": "2g.20gb", "multiprocessors": 28, "memory_mb": 19968}, ...],
//    "functions": [{"name": "large", "pipeline": {pipeline.json}, "profile": {profile.json}}, ...],
//    "arrivals": [[0.25, "large"], ...],
//    "machine": {"copy_gb_per_s": 12, "edge_ms": 2, "handover_ms": 0.2, "stop_ms": 100,
//                "start_beside_ms": 0, "moved_share": 1}}
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "decide/pipeline/pipeline_json.h"
#include "decide/pipeline/planner.h"
#include "decide/pipeline/throughput_bound.h"
#include "decide/slice_scheduling/make_policy.h"
#include "sim/slice_simulator/run.h"

namespace lambent {
namespace {

using Json = nlohmann::json;
using slice_simulator::Scene;

Slice slice_of(const Json& told, uint32_t& place, uint32_t& last_gpu) {
  Slice slice;
  slice.gpu = told.at("gpu").get<uint32_t>();
  place = slice.gpu == last_gpu ? place + 1 : 0;
  last_gpu = slice.gpu;
  // As a worker numbers them, so that what is alike otherwise is tried in the same order.
  slice.id = mig_instance(slice.gpu, place);
  slice.shape = {told.at("shape").get<std::string>(), told.at("multiprocessors").get<unsigned>(),
                 Bytes::mib(told.at("memory_mb").get<uint64_t>())};
  return slice;
}

// As a worker with these slices plans what it is given.
Result<pipeline::PipelineFunction> function_of(FunctionId id, const Json& told,
                                               const std::vector<Slice>& slices) {
  ASSIGN_OR_RETURN(const auto definition, pipeline::parse_pipeline(told.at("pipeline").dump()));
  ASSIGN_OR_RETURN(const auto measured,
                   pipeline::parse_profile(told.at("profile").dump(), definition.dag));
  pipeline::PlannerOptions options;
  for (const Slice& slice : slices) {
    if (std::ranges::find(options.shapes, slice.shape) == options.shapes.end()) {
      options.shapes.push_back(slice.shape);
    }
  }
  return pipeline::plan_function(id, definition, measured, Bytes(), options);
}

void read_machine(const Json& told, slice_simulator::MachineModel& machine) {
  machine.copy_gb_per_s = told.value("copy_gb_per_s", machine.copy_gb_per_s);
  machine.gpu_gb_per_s = told.value("gpu_gb_per_s", machine.gpu_gb_per_s);
  machine.edge = from_seconds(told.value("edge_ms", to_milliseconds(machine.edge)) / 1e3);
  machine.handover =
      from_seconds(told.value("handover_ms", to_milliseconds(machine.handover)) / 1e3);
  machine.stop = from_seconds(told.value("stop_ms", to_milliseconds(machine.stop)) / 1e3);
  machine.start_beside =
      from_seconds(told.value("start_beside_ms", to_milliseconds(machine.start_beside)) / 1e3);
  machine.moved_share = told.value("moved_share", machine.moved_share);
  machine.spread = told.value("spread", machine.spread);
}

Json json_of(const slice_simulator::RunResult& result, const std::vector<std::string>& names) {
  Json requests = Json::array();
  for (const slice_simulator::RequestOutcome& one : result.requests) {
    Json told = {{"function", names[one.function.value - 1]},
                 {"at_s", to_seconds(one.submitted.time_since_epoch())},
                 {"latency_ms", Json()},
                 {"in_time", one.hit()},
                 {"load_ms", to_milliseconds(one.load)}};
    if (one.succeeded()) told["latency_ms"] = to_milliseconds(one.latency());
    if (one.error) told["error"] = one.error->message;
    requests.push_back(std::move(told));
  }
  double busy_s = 0, held_s = 0;
  for (const auto& [slice, use] : result.slices) {
    busy_s += to_seconds(use.busy);
    held_s += to_seconds(use.held);
  }
  double execution_s = 0;
  for (const auto& one : result.requests) execution_s += to_seconds(one.execution);
  return {{"simulated", true},
          {"requests", requests},
          {"starts", result.starts},
          {"pipelines", result.pipelines},
          {"loads", result.loads},
          {"unloads", result.unloads},
          {"stops", result.stops},
          {"execution_s", execution_s},
          {"mig_time_s", busy_s},
          {"mig_held_s", held_s},
          {"impossible", result.impossible}};
}

Result<Json> simulate(const Json& told) {
  Scene scene;
  uint32_t place = 0, last_gpu = UINT32_MAX;
  for (const Json& slice : told.at("slices")) {
    scene.slices.push_back(slice_of(slice, place, last_gpu));
  }
  std::vector<std::string> names;
  std::map<std::string, FunctionId> ids;
  for (const Json& one : told.at("functions")) {
    names.push_back(one.at("name").get<std::string>());
    const FunctionId id(static_cast<uint32_t>(names.size()));
    ids[names.back()] = id;
    auto function = function_of(id, one, scene.slices);
    if (!function.ok()) return function.error().with_context(names.back());
    scene.functions.push_back(
        std::make_shared<const pipeline::PipelineFunction>(std::move(function).value()));
  }
  std::vector<pipeline::MixedFunction> mix;
  for (const auto& function : scene.functions) mix.push_back({function.get(), 0});
  for (const Json& arrival : told.at("arrivals")) {
    const auto function = ids.find(arrival.at(1).get<std::string>());
    const Instant at(from_seconds(arrival.at(0).get<double>()));
    if (function == ids.end() || (!scene.arrivals.empty() && at < scene.arrivals.back().at)) {
      return Error{ErrorCode::kInvalidArgument, "arrivals: ascending, of functions that are there"};
    }
    scene.arrivals.push_back({at, function->second});
    mix[function->second.value - 1].share += 1;
  }
  if (told.contains("machine")) read_machine(told.at("machine"), scene.machine);
  scene.seed = told.value("seed", uint64_t{1});
  const slice_scheduling::SlicePolicyOptions options;  // as a worker has them
  ASSIGN_OR_RETURN(auto policy, slice_scheduling::make_slice_policy(
                                    told.at("policy").get<std::string>(), options));
  slice_scheduling::SliceDispatcher dispatcher(std::move(policy), {});
  Json started = Json::array();
  const auto decide = [&](const slice_scheduling::Event& event, Instant now,
                          std::vector<slice_scheduling::Action>& actions) {
    dispatcher.handle(event, now, actions);
    for (const slice_scheduling::Action& action : actions) {
      const auto* start = std::get_if<slice_scheduling::StartInstance>(&action);
      if (start == nullptr) continue;
      started.push_back({{"at_s", to_seconds(now.time_since_epoch())},
                         {"function", names[start->function.value - 1]},
                         {"stages", start->placement.partition.stages.size()}});
    }
  };
  Json result = json_of(slice_simulator::run(scene, decide), names);
  result["started"] = std::move(started);
  for (const auto& [key, kind] : {std::pair("cut_bound_per_s", pipeline::BoundKind::kCut),
                                  std::pair("whole_bound_per_s", pipeline::BoundKind::kWhole)}) {
    ASSIGN_OR_RETURN(const double bound, pipeline::throughput_bound(mix, scene.slices, kind));
    result[key] = bound;
  }
  return result;
}

}  // namespace
}  // namespace lambent

int main() {
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  try {
    const auto result = lambent::simulate(nlohmann::json::parse(text));
    if (!result.ok()) {
      std::fprintf(stderr, "slice_node: %s\n", result.error().message.c_str());
      return 1;
    }
    std::puts(result->dump().c_str());
  } catch (const nlohmann::json::exception& error) {
    std::fprintf(stderr, "slice_node: %s\n", error.what());
    return 2;
  }
  return 0;
}
