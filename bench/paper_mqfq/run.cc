#include "bench/paper_mqfq/run.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/json.h"
#include "bench/paper_mqfq/fairness.h"
#include "bench/paper_mqfq/other_orders.h"
#include "core/base/check.h"

namespace lambent::paper_mqfq {

using bench::Joined;

simulator::WorkloadRunOptions options_of(const System& system, const Site& site,
                                         const Constants& constants, uint64_t seed) {
  simulator::WorkloadRunOptions run;
  run.seed = seed;
  run.spread = constants.spread;
  run.sandbox_time = from_seconds(constants.sandbox_ms / 1e3);
  run.context_memory = Bytes(static_cast<uint64_t>(constants.context_mib * (1 << 20)));
  // FCFS naive has a container for each invocation; else what D lets run at once.
  const unsigned at_once =
      site.gpus * (site.by_utilisation ? site.by_utilisation->most : site.tokens);
  run.max_concurrency = system.second_containers ? at_once : 1;
  run.device.slowdown = constants.slowdown;
  if (constants.phased != Phased::kNo) {
    run.phases = simulator::PhaseOptions{.kernel_scale = constants.kernel_scale};
    run.device.sharing = constants.phased == Phased::kTurns ? simulator::Sharing::kTurns
                                                            : simulator::Sharing::kSideBySide;
  }
  run.device.utilisation_average = from_seconds(constants.utilisation_average_s);
  run.device.starts_contend = constants.starts_contend;
  run.device.link_bytes_per_second = constants.link_gb_per_s * 1e9;
  run.device.link_out_bytes_per_second = constants.link_gb_per_s * 1e9;
  run.device.stays = run.context_memory;
  run.device.stop_time = from_seconds(constants.stop_ms / 1e3);
  run.device.move_off_holds_token = system.move_off_holds_token;
  dispatch::DispatchOptions& dispatch = run.dispatch;
  for (uint32_t i = 1; i <= site.gpus; ++i) {
    dispatch.fleet.devices.push_back(
        {.id = DeviceId{i},
         .memory = Bytes(static_cast<uint64_t>(constants.device_memory_mib * (1 << 20))),
         .tokens = site.tokens,
         .contexts = site.pool,
         .by_utilisation = site.by_utilisation});
  }
  if (site.host) {
    run.cpu_variants = true;
    dispatch.hybrid = *site.host;
    dispatch.host_concurrency = kHostCores;
    dispatch.host_sandboxes = 2 * kHostCores;
  }
  dispatch.fleet.most_sandboxes = site.pool;
  dispatch.fleet.memory_rule =
      system.moves_early ? scheduling::MemoryRule::kMoveEarly : scheduling::MemoryRule::kMoveIdle;
  dispatch.fleet.eviction = system.eviction;
  dispatch.fleet.prefetch = system.prefetches;
  dispatch.fleet.foresight.starts_ahead = system.foresees;
  dispatch.fleet.second_grace_period = system.second_grace_period;
  dispatch.fleet.starts_outside_tokens = system.starts_outside_tokens;
  // An open loop: whatever comes waits.
  dispatch.queued_per_function = 1'000'000;
  dispatch.queued_invocations = 10'000'000;
  dispatch.longest_wait = seconds(100'000'000);
  return run;
}

std::unique_ptr<scheduling::Policy> policy_of(const System& system) {
  if (auto other = make_other_order(system.policy)) return other;
  auto made = scheduling::make_policy(system.policy, system.options);
  CHECK(made.ok(), "a system names a policy that there is");
  return std::move(*made);
}

const std::vector<Figure>& figures() {
  static const std::vector<Figure> kFigures = {{"mean_s", &Figures::mean_s},
                                               {"p50_s", &Figures::p50_s},
                                               {"p99_s", &Figures::p99_s},
                                               {"variance", &Figures::variance},
                                               {"slowdown", &Figures::slowdown},
                                               {"worst_slowdown", &Figures::worst_slowdown},
                                               {"normalised", &Figures::normalised},
                                               {"service_gap_s", &Figures::service_gap_s},
                                               {"cold_ratio", &Figures::cold},
                                               {"gpu_cold_ratio", &Figures::gpu_cold},
                                               {"on_host", &Figures::on_host},
                                               {"utilisation", &Figures::utilisation},
                                               {"execution_over_warm", &Figures::execution},
                                               {"run_s", &Figures::run_s},
                                               {"failed", &Figures::failed}};
  return kFigures;
}

Figures run_once(const Workload& workload, const System& system, const Site& site,
                 const Constants& constants, uint64_t seed) {
  std::vector<workload::CatalogueEntry> entries = workload.entries;
  for (workload::CatalogueEntry& entry : entries) {
    if (constants.memory_each_mib > 0) {
      entry.device_memory = Bytes(static_cast<uint64_t>(constants.memory_each_mib * (1 << 20)));
    }
    entry.device_memory = Bytes(static_cast<uint64_t>(
        static_cast<double>(entry.device_memory.count) * constants.memory_scale));
    entry.gpu_cold_s = entry.gpu_warm_s + constants.cold_scale * entry.init_s();
  }
  std::vector<Span> spans;
  spans.reserve(workload.arrivals.size());
  double executions = 0;
  simulator::WorkloadRunSinks sinks;
  sinks.record = [&](const workload::RunRecord& record) {
    const workload::Sample& sample = record.sample;
    if (record.outcome != workload::RunOutcome::kSucceeded) return;
    const double completed_s = record.at_s + sample.latency_s;
    spans.push_back({sample.function, record.at_s, completed_s - sample.run_s, completed_s});
    executions += (sample.latency_s - sample.queue_s) / entries[sample.function].gpu_warm_s;
  };
  workload::Trace trace = trace_of(workload);
  simulator::WorkloadRunOptions options = options_of(system, site, constants, seed);
  if (system.clairvoyant) {
    options.oracle = simulator::oracle_of(workload.arrivals, workload.entries.size());
  }
  const auto ran = simulator::run_workload(trace, entries, options, policy_of(system), sinks);
  CHECK(ran.ok(), "a workload in memory can be read");
  const workload::Summary& summary = ran->summary;
  Figures figures{.mean_s = summary.mean_s,
                  .p50_s = summary.p50_s,
                  .p99_s = summary.p99_s,
                  .variance = summary.variance_between_functions,
                  .normalised = summary.normalised_latency.value_or(0),
                  .service_gap_s = service_gap(std::move(spans), entries.size()),
                  .cold = summary.cold_ratio,
                  .gpu_cold = summary.gpu_cold_ratio,
                  .on_host = static_cast<double>(ran->host_runs) /
                             std::max<double>(1, static_cast<double>(summary.count)),
                  .utilisation = ran->utilisation,
                  .execution = executions / std::max<double>(1, static_cast<double>(summary.count)),
                  .run_s = summary.run_mean_s,
                  .least_s = summary.least_mean_s.value_or(0),
                  .failed = static_cast<double>(summary.failed)};
  workload::Mean slowdowns;
  for (const workload::FunctionSummary& function : summary.functions) {
    if (function.count == 0) continue;
    slowdowns.add(function.mean_s / function.warm_s);
    figures.worst_slowdown = std::max(figures.worst_slowdown, function.mean_s / function.warm_s);
  }
  figures.slowdown = slowdowns.mean();
  return figures;
}

std::vector<Figures> Runs::of(const Workload& workload, const System& system, const Site& site,
                              const Constants& constants) {
  std::vector<Figures> all;
  for (uint64_t seed = 1; seed <= seeds_; ++seed) {
    all.push_back(run_once(workload, system, site, constants, seed));
    ++count_;
  }
  return all;
}

const std::vector<Figures>& Runs::of(const Workload& workload, const System& system,
                                     const Site& site) {
  const std::string key =
      workload.name + "|" + system.name + "|" + settings_of(system) + "|" + name_of(site);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  return known_[key] = of(workload, system, site, Constants());
}

sweep::Estimate estimate(const std::vector<Figures>& all, double Figures::*of) {
  std::vector<double> values;
  for (const Figures& one : all) values.push_back(one.*of);
  return sweep::estimate_of(values);
}

std::vector<double> ratios(const std::vector<Figures>& one, const std::vector<Figures>& other,
                           double Figures::*of) {
  std::vector<double> all;
  for (size_t i = 0; i < one.size(); ++i) {
    // NAN, which is null in the result, where there is nothing to compare with.
    all.push_back(other[i].*of > 0 ? one[i].*of / (other[i].*of)
                                   : std::numeric_limits<double>::quiet_NaN());
  }
  return all;
}

std::vector<double> geometric_means(const std::vector<std::vector<double>>& by_trace) {
  std::vector<double> means;
  for (size_t seed = 0; seed < by_trace.front().size(); ++seed) {
    double logarithms = 0;
    for (const std::vector<double>& trace : by_trace) logarithms += std::log(trace[seed]);
    means.push_back(std::exp(logarithms / static_cast<double>(by_trace.size())));
  }
  return means;
}

std::string json_of(const sweep::Estimate& estimate) {
  return Joined()
      .add("mean", estimate.mean)
      .add("half_width", estimate.half_width ? bench::number(*estimate.half_width) : "null")
      .object();
}

std::string json_of(const std::vector<Figures>& all) {
  Joined members;
  for (const Figure& figure : figures()) {
    const sweep::Estimate is = estimate(all, figure.of);
    members.add(figure.name, Joined()
                                 .add(bench::number(is.mean))
                                 .add(is.half_width ? bench::number(*is.half_width) : "null")
                                 .list());
  }
  return members.object();
}

}  // namespace lambent::paper_mqfq
