// A scene under a policy, from the first arrival to the last answer: what became of every request,
// and how the slices were used. Deterministic; used by benchmarks, the layout advisor and tests.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "decide/slice_scheduling/policy.h"
#include "decide/slice_scheduling/slice_dispatcher.h"
#include "sim/slice_simulator/machine.h"

namespace lambent::slice_simulator {

struct RequestOutcome {
  FunctionId function;
  Instant submitted{};
  Instant completed = kNever;  // kNever: it was not complete when the run ended
  std::optional<Error> error;
  Instant deadline = kNever;
  // Where its time went; they add up to completed - submitted of those without an error.
  Duration queue{};  // for an instance, and inside of one for other requests
  Duration load{};   // of that, while the instance that served it came to its slices
  Duration execution{};
  Duration transfer{};

  bool succeeded() const { return completed != kNever && !error; }
  Duration latency() const { return completed - submitted; }
  bool hit() const { return succeeded() && completed <= deadline; }
};

struct RunResult {
  std::vector<RequestOutcome> requests;  // in the order of arrival
  Instant ended{};                       // the last answer, or the end of the run
  std::map<DeviceId, Use> slices;
  std::map<DeviceId, Use> watched;  // between Scene::watched_from and the last arrival
  std::map<std::pair<uint32_t, uint32_t>, Use> gpus;  // by node and GPU
  uint64_t starts = 0, loads = 0, unloads = 0, stops = 0;
  uint64_t pipelines = 0;  // of the starts: on several slices
  uint64_t pipeline_jobs = 0, jobs = 0;
  Bytes copied;  // weights
  uint64_t events = 0;
  // Machine::impossible(), and what was done to requests that may not be done.
  std::vector<std::string> impossible;
};

// Whatever decides: an event in, actions out.
using Decide = std::function<void(const slice_scheduling::Event&, Instant,
                                  std::vector<slice_scheduling::Action>&)>;
RunResult run(const Scene& scene, const Decide& decide);

// The SliceDispatcher with that policy.
RunResult run(const Scene& scene, std::unique_ptr<slice_scheduling::SlicePolicy> policy,
              const slice_scheduling::SliceDispatcherOptions& options);

// The id of the request that arrives as number `arrival` of a scene.
InvocationId request_id(size_t arrival);

}  // namespace lambent::slice_simulator
