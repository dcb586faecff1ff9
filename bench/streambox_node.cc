// streambox_node: points of the model of paper-streambox, described in JSON on the standard input,
// and what it says of each, as JSON. Used by bench/paper_streambox_worker.py beside a real worker
// that was given the same requests at the same moments.
//
//   {"constants": {"call_ms": 0.2, ...},
//    "points": [{"system": "infless", "workflow": "traffic", "length_s": 20, "told_from_s": 8,
//                "settings": {"devices": 1, "tenants": 1, "batch": 1, "jobs": 8, "streams": 8,
//                             "start_after_s": 1, "keep_weights_s": 60},
//                "arrivals": [[at_s, tenant, cars, people], ...]}, ...]}
//
// Constants are named as inputs.cc names them; what is not named is as the model has it.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "bench/paper_streambox/experiments.h"
#include "bench/paper_streambox/inputs.h"
#include "core/base/result.h"

namespace lambent::paper_streambox {
namespace {

using Json = nlohmann::json;

Result<Constants> constants_of(const Json& told) {
  Constants constants;
  for (const auto& [name, value] : told.items()) {
    bool known = false;
    for (const Input& input : inputs()) {
      if (name != input.name) continue;
      constants.*input.value = value.get<double>() * input.unit;
      known = true;
    }
    if (!known) return Error{ErrorCode::kInvalidArgument, "there is no constant '" + name + "'"};
  }
  return constants;
}

Result<System> system_of(const std::string& name) {
  for (const System system : kSystems) {
    if (name == name_of(system)) return system;
  }
  return Error{ErrorCode::kInvalidArgument, "there is no system '" + name + "'"};
}

Result<const Workflow*> workflow_of(const std::string& name) {
  for (const Workflow& workflow : workflows()) {
    if (name == workflow.name) return &workflow;
  }
  return Error{ErrorCode::kInvalidArgument, "there is no workflow '" + name + "'"};
}

Setup setup_of(System system, const Json& told) {
  Setup setup = best_setup(system);
  setup.devices = told.value("devices", setup.devices);
  setup.tenants = told.value("tenants", setup.tenants);
  setup.batch = told.value("batch", setup.batch);
  setup.jobs = told.value("jobs", setup.jobs);
  setup.streams = told.value("streams", setup.streams);
  setup.start_after_s = told.value("start_after_s", setup.start_after_s);
  setup.keep_weights_s = told.value("keep_weights_s", setup.keep_weights_s);
  return setup;
}

Result<std::vector<Arrival>> arrivals_of(const Json& told, unsigned tenants) {
  std::vector<Arrival> arrivals;
  for (const Json& one : told) {
    const Arrival arrival{one.at(0).get<double>(), one.at(1).get<unsigned>(),
                          one.at(2).get<uint64_t>(), one.at(3).get<uint64_t>()};
    if (arrival.tenant >= tenants || (!arrivals.empty() && arrival.at_s < arrivals.back().at_s)) {
      return Error{ErrorCode::kInvalidArgument,
                   "an arrival comes before the one before it, or is of no tenant"};
    }
    arrivals.push_back(arrival);
  }
  return arrivals;
}

Json json_of(const RunResult& run) {
  Json latencies = Json::array();
  for (const double latency_s : run.latencies_s) {
    latencies.push_back(latency_s < 0 ? Json() : Json(1e3 * latency_s));
  }
  return {{"latencies_ms", std::move(latencies)},
          {"memory_mb", run.memory_bytes / 1e6},
          {"peak_memory_mb", run.peak_memory_bytes / 1e6},
          {"idle_memory_mb", run.idle_memory_bytes / 1e6},
          {"startup_ms", 1e3 * run.startup_s},
          {"communication_ms", 1e3 * run.communication_s},
          {"compute_ms", 1e3 * run.compute_s},
          {"starts", run.starts}};
}

Result<Json> answer(const Json& told) {
  ASSIGN_OR_RETURN(const Constants constants,
                   constants_of(told.value("constants", Json::object())));
  const Models models = make_models(constants);
  Json results = Json::array();
  for (const Json& point : told.at("points")) {
    ASSIGN_OR_RETURN(const System system, system_of(point.at("system").get<std::string>()));
    ASSIGN_OR_RETURN(const Workflow* workflow,
                     workflow_of(point.at("workflow").get<std::string>()));
    Setup setup = setup_of(system, point.value("settings", Json::object()));
    setup.told_from_s = point.value("told_from_s", 0.0);
    if (setup.devices == 0 || setup.tenants == 0 || setup.batch == 0 || setup.batch > kMostBatch) {
      return Error{ErrorCode::kInvalidArgument, "a setting is out of range"};
    }
    ASSIGN_OR_RETURN(const auto arrivals, arrivals_of(point.at("arrivals"), setup.tenants));
    results.push_back(json_of(run_once(constants, models, *workflow, setup, arrivals,
                                       point.at("length_s").get<double>())));
  }
  return results;
}

}  // namespace
}  // namespace lambent::paper_streambox

int main() {
  try {
    const auto result = lambent::paper_streambox::answer(nlohmann::json::parse(std::cin));
    if (result.ok()) {
      std::printf("%s\n", result->dump().c_str());
      return 0;
    }
    std::fprintf(stderr, "streambox_node: %s\n", result.error().message.c_str());
  } catch (const nlohmann::json::exception& error) {
    std::fprintf(stderr, "streambox_node: %s\n", error.what());
  }
  return 1;
}
