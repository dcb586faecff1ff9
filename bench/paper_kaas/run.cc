#include "bench/paper_kaas/run.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/base/random.h"
#include "decide/scheduling/make_policy.h"
#include "sim/simulator/simulation.h"
#include "sim/workload/csv.h"
#include "sim/workload/lines.h"
#include "sim/workload/quantiles.h"

namespace lambent::paper_kaas {
namespace {

using simulator::Arrival;
using simulator::FunctionModel;
using simulator::SimulationOptions;

SimulationOptions simulation_of(const Workload& workload, const Constants& constants,
                                const Setup& setup, uint64_t seed) {
  const bool kernel = setup.system == System::kKernelTasks;
  // Policy Exclusive gives a device to one function by itself; for other policies the room for
  // one process a device does.
  const bool one_process = !kernel && setup.policy != "exclusive";
  SimulationOptions options;
  options.seed = seed;
  dispatch::DispatchOptions& dispatch = options.dispatch;
  for (uint32_t i = 1; i <= constants.gpus; ++i) {
    // An executor's one context is there for good; each eTask brings its own.
    dispatch.fleet.devices.push_back(
        {.id = DeviceId{i},
         .memory = kernel ? constants.gpu_memory - constants.context : constants.gpu_memory,
         .tokens = setup.tokens,
         .contexts = one_process ? 1U : 100'000U});
  }
  dispatch.fleet.most_sandboxes = 100'000;
  dispatch.fleet.memory_rule = scheduling::MemoryRule::kMoveIdle;
  dispatch.queued_per_function = 1'000'000;
  dispatch.queued_invocations = 10'000'000;
  dispatch.longest_wait = seconds(10'000'000);
  dispatch.keep_alive = seconds(1'000'000);
  // Two at once take twice as long each: to run beside each other makes no GPU faster.
  options.device.slowdown = 1;
  options.device.link_bytes_per_second = constants.link_bytes_per_second;
  options.device.link_out_bytes_per_second = constants.link_bytes_per_second;
  options.device.stop_time = kernel ? Duration(0) : constants.etask_stop;
  for (uint32_t i = 1; i <= setup.replicas; ++i) {
    FunctionModel function;
    function.profile.id = FunctionId{i};
    function.profile.tenant = TenantId{1};
    function.profile.max_concurrency = constants.gpus;
    function.profile.device_memory = workload.constants + workload.dynamic;
    if (!kernel) function.profile.device_memory += constants.context;
    function.execution = workload.gpu + constants.overhead;
    function.spread = constants.spread;
    function.sandbox_time = kernel ? constants.ktask_start : Duration(0);
    function.init_time = kernel ? Duration(0) : constants.etask_start;
    function.constants = workload.constants;
    function.is_kernel = kernel;
    options.functions.push_back(function);
  }
  return options;
}

std::unique_ptr<scheduling::Policy> policy_of(const Setup& setup) {
  scheduling::PolicyOptions options;
  if (setup.over_run > Duration(0)) options.mqfq.over_run = setup.over_run;
  options.mqfq.memory_first = setup.memory_first;
  options.cfs.penalty = setup.cfs_penalty;
  return std::move(scheduling::make_policy(setup.policy, options)).value();
}

// How long a run has to be for so many requests.
double counted_seconds(const Workload& workload, const Constants& constants, const Setup& setup,
                       const RunOptions& options) {
  if (options.rate > 0) return std::max(options.at_least_s, options.requests / options.rate);
  double each_s = to_seconds(workload.gpu);
  if (setup.system == System::kExclusiveTasks && setup.replicas > constants.gpus) {
    each_s += to_seconds(constants.etask_start);
  }
  return std::max(options.at_least_s, options.requests * each_s / constants.gpus);
}

}  // namespace

Result<std::vector<double>> open_gaps(const std::string& path) {
  ASSIGN_OR_RETURN(const auto lines, workload::open_lines(path));
  std::vector<double> gaps;
  double sum = 0;
  for (;;) {
    ASSIGN_OR_RETURN(const auto line, lines->next());
    if (!line) break;
    const auto gap = workload::number_of(*line);
    if (!gap || *gap < 0 || *gap > 1e9) {
      return Error{ErrorCode::kInvalidArgument,
                   path + ", line " + std::to_string(gaps.size() + 1) + ": no gap"};
    }
    gaps.push_back(*gap);
    sum += *gap;
  }
  if (sum <= 0) return Error{ErrorCode::kInvalidArgument, path + " has no gaps longer than zero"};
  for (double& gap : gaps) gap *= static_cast<double>(gaps.size()) / sum;
  return gaps;
}

RunResult run_once(const Workload& workload, const Constants& constants, const Setup& setup,
                   const RunOptions& options) {
  const double counted_s = counted_seconds(workload, constants, setup, options);
  const Instant begins{from_seconds(options.warm_up_s)};
  const Instant ends = begins + from_seconds(counted_s);
  const bool offline = options.rate == 0;

  RunResult result;
  workload::Quantiles latencies;
  uint64_t counted = 0, cold = 0, gpu_cold = 0;
  double latency_sum = 0;
  simulator::Simulation* running = nullptr;
  simulator::Simulation simulation(
      simulation_of(workload, constants, setup, options.seed), policy_of(setup),
      [&](const simulator::SimulatedInvocation& one) {
        CHECK(one.outcome.outcome == Outcome::kSucceeded, "nothing fails in this world");
        // The client's next request is on its way through its steps on the host at once.
        if (offline && running->now() < ends) running->submit_after(workload.host, one.function);
        const Instant decides = offline ? one.completed : one.submitted;
        if (decides < begins || decides >= ends) return;
        ++counted;
        if (one.outcome.start == StartClass::kCold) ++cold;
        if (one.outcome.start == StartClass::kGpuCold) ++gpu_cold;
        const double latency = to_seconds(one.completed - one.submitted + workload.host);
        latencies.add(latency);
        latency_sum += latency;
      });
  running = &simulation;

  SeededRandom random(options.seed * 7919 + 17);
  const uint64_t first_requests = offline ? setup.replicas * constants.outstanding : 0;
  uint64_t sent = 0;
  Instant at{};
  size_t next_gap = options.gaps == nullptr ? 0 : random.below(options.gaps->size());
  const auto gap = [&] {
    if (options.gaps == nullptr) return -std::log(1 - random.uniform());
    return (*options.gaps)[next_gap++ % options.gaps->size()];
  };
  simulation.run([&]() -> std::optional<Arrival> {
    if (offline) {
      if (sent == first_requests) return std::nullopt;
      return Arrival{Instant(), FunctionId{1 + static_cast<uint32_t>(sent++ % setup.replicas)}};
    }
    at += from_seconds(gap() / options.rate);
    if (at >= ends) return std::nullopt;
    return Arrival{at, FunctionId{1 + static_cast<uint32_t>(random.below(setup.replicas))}};
  });

  const double count = std::max<double>(1, static_cast<double>(counted));
  result.throughput = static_cast<double>(counted) / counted_s;
  result.mean_s = latency_sum / count;
  result.p50_s = latencies.at(0.5);
  result.p90_s = latencies.at(0.9);
  result.p99_s = latencies.at(0.99);
  for (size_t i = 0; i < kShares.size(); ++i) result.distribution_s[i] = latencies.at(kShares[i]);
  result.cold_share = static_cast<double>(cold) / count;
  result.gpu_cold_share = static_cast<double>(gpu_cold) / count;
  return result;
}

}  // namespace lambent::paper_kaas
