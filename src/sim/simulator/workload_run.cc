#include "sim/simulator/workload_run.h"

#include <algorithm>

#include "sim/simulator/gpu_counts.h"
#include "sim/workload/least_latency.h"
#include "sim/workload/statistics.h"

namespace lambent::simulator {
namespace {

constexpr uint64_t kOutcomesBetweenProgress = 16'384;
constexpr Duration kNeverEnds = std::chrono::hours(24 * 365);

void add_cpu_variant(const workload::CatalogueEntry& entry, const WorkloadRunOptions& options,
                     FunctionModel& model) {
  model.profile.has_cpu_variant = true;
  model.host_execution = from_seconds(entry.cpu_warm_s);
  model.host_init_time = std::max(model.init_time - options.host_init_saving,
                                  std::min(model.init_time, options.least_host_init));
  if (options.declares_speedup && entry.gpu_warm_s > 0) {
    model.profile.gpu_speedup = entry.cpu_warm_s / entry.gpu_warm_s;
  }
}

PhaseModel phases_of(const workload::CatalogueEntry& entry, const PhaseOptions& options) {
  const workload::Phases phases = entry.phases->with_kernels(options.kernel_scale);
  return {.host = phases.host_s / entry.gpu_warm_s,
          .kernels = phases.kernel_s / entry.gpu_warm_s,
          .copy_in = phases.copy_in,
          .copy_out = phases.copy_out,
          .rounds = phases.rounds,
          .occupancy = phases.occupancy};
}

std::vector<double> warm_times_of(const std::vector<workload::CatalogueEntry>& entries) {
  std::vector<double> warm_s;
  for (const workload::CatalogueEntry& entry : entries) warm_s.push_back(entry.gpu_warm_s);
  return warm_s;
}

Result<void> check_phases(const std::vector<workload::CatalogueEntry>& entries) {
  for (const workload::CatalogueEntry& entry : entries) {
    if (entry.phases) continue;
    return Error{ErrorCode::kInvalidArgument,
                 "the catalogue has no phases of '" + entry.name +
                     "': add its host_s, copy_in_mib, kernel_s and the others, or run without "
                     "--phases"};
  }
  return {};
}

Result<void> check_gpu_counts(const std::vector<std::string>& names,
                              const SimulationOptions& simulated,
                              const scheduling::Policy& policy) {
  const auto name_of = [&](FunctionId id) { return "'" + names[id.value - 1] + "'"; };
  return check_gpu_counts(simulated.functions, name_of, simulated.dispatch.fleet, policy);
}

// Makes the functions those of the options' tenants; returns of each the index of its tenant.
Result<std::vector<size_t>> give_to_tenants(const std::vector<std::string>& names,
                                            const WorkloadRunOptions& options,
                                            SimulationOptions& simulated) {
  if (options.tenants.empty()) return std::vector<size_t>();
  ASSIGN_OR_RETURN(std::vector<size_t> tenant_of, tenants_of(names, options.tenants));
  for (const SimulatedTenant& tenant : options.tenants) {
    simulated.tenants.push_back(tenant.changed);
    simulated.tenants.back().tenant = TenantId{static_cast<uint32_t>(simulated.tenants.size())};
  }
  for (size_t i = 0; i < tenant_of.size(); ++i) {
    simulated.functions[i].profile.tenant = simulated.tenants[tenant_of[i]].tenant;
  }
  return tenant_of;
}

std::vector<TenantTotals> empty_totals_of(const std::vector<SimulatedTenant>& tenants) {
  std::vector<TenantTotals> totals;
  for (const SimulatedTenant& tenant : tenants) {
    totals.push_back({.name = tenant.name, .weight = tenant.changed.weight});
  }
  return totals;
}

void count(const workload::Sample& sample, DeviceId device, TenantTotals& tenant) {
  ++tenant.invocations;
  if (!sample.succeeded) ++tenant.failed;
  if (sample.succeeded) tenant.latency_s += sample.latency_s;
  if (device != scheduling::kHostDevice) tenant.gpu_time_s += sample.run_s;
}

workload::Sample sample_of(const SimulatedInvocation& invocation, Duration request_overhead) {
  const dispatch::CompleteInvocation& outcome = invocation.outcome;
  workload::Sample sample;
  sample.function = invocation.function.value - 1;
  sample.latency_s = to_seconds(invocation.completed - invocation.submitted + request_overhead);
  sample.queue_s = to_seconds(outcome.phases.queue);
  sample.cold_s = to_seconds(outcome.phases.sandbox + outcome.phases.init);
  sample.memory_s = to_seconds(outcome.phases.memory);
  sample.run_s = to_seconds(outcome.phases.run);
  sample.start = outcome.start;
  sample.succeeded = outcome.outcome == Outcome::kSucceeded;
  return sample;
}

workload::RunRecord record_of(const SimulatedInvocation& invocation,
                              const workload::Sample& sample) {
  const dispatch::CompleteInvocation& outcome = invocation.outcome;
  workload::RunRecord record;
  record.at_s = to_seconds(invocation.submitted.time_since_epoch());
  record.sample = sample;
  record.device = outcome.device.value;
  record.invocation = to_string(outcome.invocation);
  if (outcome.outcome == Outcome::kRejected) {
    record.outcome = workload::RunOutcome::kRejected;
    if (outcome.error) record.error = name_of(outcome.error->code);
  } else if (outcome.outcome == Outcome::kFunctionError) {
    record.outcome = workload::RunOutcome::kFunctionError;
    record.error = outcome.error_type;
  }
  return record;
}

// What no order can have a lower mean latency than. Of runs with phases two bounds hold: the
// devices do no more work in a second than they have places, and no more of kernels than they can.
class LeastOf {
 public:
  explicit LeastOf(const WorkloadRunOptions& options)
      : phases_(options.phases),
        fills_(options.phases && options.device.sharing == Sharing::kSideBySide),
        runs_(options.phases ? places(options) : best_rate(options)) {
    if (phases_) kernels_.emplace(best_rate(options));
  }

  void add(const workload::Arrival& arrival, const workload::CatalogueEntry& entry,
           double least_share) {
    const Duration at = arrival.at;
    if (!phases_) {
      const bool has_own = arrival.execution_s > 0;
      runs_.add(at, from_seconds(has_own ? arrival.execution_s : entry.gpu_warm_s * least_share));
      return;
    }
    const workload::Phases phases = entry.phases->with_kernels(phases_->kernel_scale);
    // Copies may be faster here than where they were measured.
    runs_.add(at, from_seconds((phases.host_s + phases.kernel_s) * least_share));
    const double part = fills_ ? phases.occupancy : 1;
    kernels_->add(at, from_seconds(phases.kernel_s * part * least_share));
  }
  std::optional<double> mean_s() {
    const auto of_runs = runs_.mean_s();
    return kernels_ && of_runs ? std::max(of_runs, kernels_->mean_s()) : of_runs;
  }

 private:
  static double places(const WorkloadRunOptions& options) {
    double count = 0;
    for (const scheduling::DeviceOptions& device : options.dispatch.fleet.devices) {
      count += device.most_tokens();
    }
    return count > 0 ? count : 1;
  }
  // What all devices do together at their best, with as many at work as they may have.
  double best_rate(const WorkloadRunOptions& options) const {
    double rate = 0;
    for (const scheduling::DeviceOptions& device : options.dispatch.fleet.devices) {
      double best = 0;
      for (unsigned n = 1; n <= device.most_tokens(); ++n) {
        const double each = slowed_down(n, options.device.slowdown, options.device.contention);
        // Side by side they may do as much as fills the device, counted by what they take of it.
        best = std::max(best, (fills_ ? 1 : n) / each);
      }
      rate += best;
    }
    return rate > 0 ? rate : 1;
  }

  std::optional<PhaseOptions> phases_;
  bool fills_;  // kernels run side by side
  workload::LeastLatency runs_;
  std::optional<workload::LeastLatency> kernels_;
};

// The trace's, each told to `least` with as little work as may be drawn for it.
ArrivalSource arrivals_of(workload::Trace& trace,
                          const std::vector<workload::CatalogueEntry>& entries, double spread,
                          LeastOf& least) {
  const double least_share = std::max(0.0, 1 - spread);
  return [&trace, &entries, &least, least_share]() -> std::optional<Arrival> {
    const auto arrival = trace.arrivals->next();
    if (!arrival) return std::nullopt;
    least.add(*arrival, entries[arrival->function], least_share);
    return Arrival{.at = Instant{} + arrival->at,
                   .function = FunctionId{arrival->function + 1},
                   .execution = from_seconds(arrival->execution_s)};
  };
}

// How far the flow with work that is ahead most is ahead of the global virtual time; nothing under
// a policy that knows no virtual time.
std::optional<double> lag_of(const dispatch::Dispatcher& dispatcher, Instant now) {
  Duration most{};
  const scheduling::Flows& flows = dispatcher.flows();
  const Duration global = dispatcher.policy().global_virtual_time();
  bool any = global > Duration(0);
  for (uint32_t i = 0; i < flows.size(); ++i) {
    if (!flows[i].registered || !flows[i].has_work()) continue;
    const scheduling::FlowStatus status = dispatcher.status(FunctionId{i}, now);
    any = any || status.virtual_time > Duration(0);
    most = std::max(most, status.virtual_time - status.global);
  }
  return any ? std::optional(to_seconds(most)) : std::nullopt;
}

}  // namespace

std::vector<FunctionModel> models_of(const std::vector<workload::CatalogueEntry>& entries,
                                     const WorkloadRunOptions& options) {
  std::vector<FunctionModel> models;
  for (const workload::CatalogueEntry& entry : entries) {
    FunctionModel model;
    model.profile.id = FunctionId{static_cast<uint32_t>(models.size() + 1)};
    model.profile.tenant = TenantId{1};
    model.profile.max_concurrency = options.max_concurrency;
    model.profile.device_memory = entry.device_memory + options.context_memory;
    model.profile.gpu_count = entry.gpu_count;
    if (entry.concurrency > 1) model.profile.sandbox_concurrency = entry.concurrency;
    model.profile.timeout = options.timeout == Duration::zero() ? kNeverEnds : options.timeout;
    model.execution = from_seconds(entry.gpu_warm_s);
    model.spread = options.spread;
    model.sandbox_time = options.sandbox_time;
    model.init_time =
        std::max(from_seconds(entry.init_s()), options.init_floor) + options.init_overhead;
    if (options.oracle) {
      model.profile.completed = 1;
      model.profile.mean_execution = model.execution;
      model.profile.mean_interarrival = seconds(60);
      model.profile.mean_cold_start = model.sandbox_time + model.init_time;
    }
    if (options.phases) model.phases = phases_of(entry, *options.phases);
    if (options.cpu_variants) add_cpu_variant(entry, options, model);
    models.push_back(model);
  }
  return models;
}

scheduling::Foresight::Oracle oracle_of(const std::vector<workload::Arrival>& arrivals,
                                        size_t functions) {
  std::vector<std::vector<Instant>> calls(functions);
  for (const workload::Arrival& arrival : arrivals) {
    calls[arrival.function].push_back(Instant{} + arrival.at);
  }
  return [calls = std::move(calls)](FunctionId function, Instant now) {
    const std::vector<Instant>& own = calls[function.value - 1];
    const auto next = std::upper_bound(own.begin(), own.end(), now);
    return next == own.end() ? kNever : *next;
  };
}

Result<WorkloadRunTotals> run_workload(workload::Trace& trace,
                                       const std::vector<workload::CatalogueEntry>& entries,
                                       const WorkloadRunOptions& options,
                                       std::unique_ptr<scheduling::Policy> policy,
                                       const WorkloadRunSinks& sinks) {
  std::vector<std::string> names;
  for (const workload::TraceFunction& function : trace.functions) names.push_back(function.name);
  const std::vector<double> warm_s = warm_times_of(entries);
  if (options.phases) RETURN_IF_ERROR(check_phases(entries));
  workload::RunStatistics statistics(names, warm_s);
  WorkloadRunTotals totals{.tenants = empty_totals_of(options.tenants)};
  SimulationOptions simulated{.dispatch = options.dispatch,
                              .device = options.device,
                              .faults = options.faults,
                              .functions = models_of(entries, options),
                              .seed = options.seed,
                              .oracle = options.oracle};
  RETURN_IF_ERROR(check_gpu_counts(names, simulated, *policy));
  ASSIGN_OR_RETURN(const std::vector<size_t> tenant_of, give_to_tenants(names, options, simulated));
  const auto devices = static_cast<uint32_t>(options.dispatch.fleet.devices.size());
  Instant next_reading = Instant{} + options.reading_period, last{};  // last: outcome
  Simulation* running = nullptr;
  // Of all devices, over so many seconds from the start.
  const auto mean_utilisation = [&](double elapsed_s) {
    double sum = 0;
    for (uint32_t i = 0; i < devices; ++i) sum += to_seconds(running->busy(i)) / elapsed_s;
    return devices == 0 || elapsed_s <= 0 ? 0 : sum / devices;
  };
  double busy_s = 0;  // up to the reading before
  const auto take_reading = [&](Instant at) {
    if (options.reading_period == Duration::zero() || !sinks.reading || at < next_reading) return;
    const double elapsed_s = to_seconds(at.time_since_epoch());
    const double busy_now_s = mean_utilisation(elapsed_s) * elapsed_s;
    const double span_s =
        elapsed_s - to_seconds((next_reading - options.reading_period).time_since_epoch());
    sinks.reading({.at_s = elapsed_s,
                   .utilisation = std::clamp((busy_now_s - busy_s) / span_s, 0.0, 1.0),
                   .in_flight = running->dispatcher().in_flight(),
                   .lag_s = lag_of(running->dispatcher(), at)});
    busy_s = busy_now_s;
    next_reading = at + options.reading_period;
  };
  Simulation simulation(
      std::move(simulated), std::move(policy), [&](const SimulatedInvocation& invocation) {
        const workload::Sample sample = sample_of(invocation, options.request_overhead);
        statistics.add(sample);
        if (!tenant_of.empty()) {
          count(sample, invocation.outcome.device, totals.tenants[tenant_of[sample.function]]);
        }
        if (sinks.record) sinks.record(record_of(invocation, sample));
        ++totals.invocations;
        last = invocation.completed;
        take_reading(invocation.completed);
        if (sinks.progress && totals.invocations % kOutcomesBetweenProgress == 0) {
          sinks.progress(totals.invocations, invocation.completed.time_since_epoch());
        }
      });
  running = &simulation;
  if (sinks.begins) simulation.observe(sinks.begins(simulation));
  LeastOf least(options);
  simulation.run(arrivals_of(trace, entries, options.spread, least));
  if (const auto failure = trace.arrivals->failure()) return *failure;
  // After the last outcome nothing runs any more, so the devices were busy for as long by then.
  totals.elapsed_s = to_seconds(last.time_since_epoch());
  totals.utilisation = mean_utilisation(totals.elapsed_s);
  const dispatch::Counters& counters = simulation.dispatcher().counters();
  totals.moves_in = counters.moves_in;
  totals.moves_out = counters.moves_out;
  totals.moved = Bytes(counters.moved_bytes);
  totals.prefetches = counters.prefetches;
  totals.prefetch_hits = counters.prefetch_hits;
  totals.host_runs = counters.host_runs;
  totals.foreseen = simulation.foreseen();
  totals.log_hash = simulation.dispatcher().log_hash();
  totals.summary = statistics.summary(totals.elapsed_s, std::max(1u, devices));
  if (devices > 0 && !options.cpu_variants && totals.summary.failed == 0) {
    totals.summary.least_mean_s = least.mean_s();
  }
  return totals;
}

}  // namespace lambent::simulator
