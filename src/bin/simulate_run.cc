#include "bin/simulate_run.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "decide/scheduling/make_policy.h"
#include "edge/cli/replay_plan.h"
#include "sim/simulator/workload_run.h"
#include "sim/workload/limits.h"

namespace lambent::bin {
namespace {

double peak_rss_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// "4 min 05 s".
std::string time_text(double seconds) {
  const auto whole = static_cast<long long>(seconds);
  char text[64];
  if (whole < 60) {
    std::snprintf(text, sizeof(text), "%lld s", whole);
  } else if (whole < 3600) {
    std::snprintf(text, sizeof(text), "%lld min %02lld s", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof(text), "%lld h %02lld min", whole / 3600, whole / 60 % 60);
  }
  return text;
}

// How far a run is, on standard error: one line that changes on a terminal, else a line now and
// then, so that a log shows it too.
class Progress {
 public:
  Progress(const SimulateOptions& options, std::string label, Duration length)
      : label_(std::move(label)),
        length_(length),
        on_terminal_(isatty(STDERR_FILENO) != 0),
        period_s_(on_terminal_ ? 0.5 : 10),
        quiet_(options.quiet) {}

  void show(uint64_t outcomes, Duration simulated, double passed_s) {
    if (quiet_ || passed_s < last_s_ + period_s_) return;
    last_s_ = passed_s;
    const double millions = static_cast<double>(outcomes) * 1e-6;
    // Of the time in which work arrives: what follows is short.
    const double done =
        length_.count() > 0 ? std::min(1.0, to_seconds(simulated) / to_seconds(length_)) : 0;
    std::string left;
    if (done > 0) left = ", " + time_text(passed_s / done - passed_s) + " left";
    std::fprintf(stderr, "%s%s: %.1f %%, %.1f million invocations, %.2f million a second%s%s",
                 on_terminal_ ? "\r" : "", label_.c_str(), 100 * done, millions,
                 millions / passed_s, left.c_str(), on_terminal_ ? "\x1b[K" : "\n");
  }

  // Leaves the line free for what comes next.
  void clear() const {
    if (on_terminal_ && last_s_ > 0) std::fprintf(stderr, "\r\x1b[K");
  }

 private:
  std::string label_;
  Duration length_;
  bool on_terminal_;
  double period_s_;
  bool quiet_;
  double last_s_ = 0;
};

workload::RunHeader header_of(const SimulateOptions& options, const cli::ReplayPlan& plan,
                              const std::string& policy_name) {
  workload::RunHeader header = {.source = "simulation",
                                .trace = plan.trace.name,
                                .policy = policy_name,
                                .rate_scale = options.workload.read.rate_scale,
                                .duration_s = options.duration_s,
                                .seed = options.workload.read.seed,
                                .devices = options.gpus};
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    header.functions.push_back(
        {plan.trace.functions[i].name, plan.entries[i].name, plan.entries[i].gpu_warm_s});
  }
  return header;
}

Error no_arrivals(const SimulateOptions& options) {
  return {ErrorCode::kInvalidArgument,
          (options.workload.trace.empty() ? "the workload" : options.workload.trace) +
              " has no arrival in this window; ask for another one (--start, --duration) or "
              "for other functions (--only, --busiest)"};
}

// The product's dispatch, told of every call beforehand: it starts each sandbox in time, evicts
// what is called last for what its start costs, and serves the shortest work first.
Result<void> know_all(cli::ReplayPlan& plan, SchedulerSettings& settings,
                      simulator::WorkloadRunOptions& run) {
  std::vector<workload::Arrival> arrivals;
  while (const auto arrival = plan.trace.arrivals->next()) {
    if (arrivals.size() == limits::kTraceArrivals) {
      return Error{ErrorCode::kResourceExhausted,
                   "--clairvoyant knows at most " + std::to_string(limits::kTraceArrivals) +
                       " arrivals; choose a shorter window with --duration"};
    }
    arrivals.push_back(*arrival);
  }
  if (const auto failure = plan.trace.arrivals->failure()) return *failure;
  run.oracle = simulator::oracle_of(arrivals, plan.entries.size());
  plan.trace.arrivals = workload::source_of(std::move(arrivals));
  settings.policy.mqfq.over_run = simulator::kNoOrderButCost;
  settings.policy.density.grace_period = simulator::kNoOrderButCost;
  settings.dispatch.fleet.eviction = scheduling::EvictionRule::kForeseen;
  settings.dispatch.fleet.foresight.starts_ahead = true;
  return {};
}

// Phases say nothing of another device than theirs.
Result<void> check_devices(const SimulateOptions& options, const cli::ReplayPlan& plan) {
  if (options.phases.empty() || options.gpu.empty()) return {};
  for (const workload::CatalogueEntry& entry : plan.entries) {
    if (!entry.phases) continue;
    RETURN_IF_ERROR(workload::check_device(*entry.phases, entry.name, options.gpu));
  }
  return {};
}

// Run times of the trace are not drawn.
Result<void> check_spread(const SimulateOptions& options, const cli::ReplayPlan& plan) {
  if (options.run.spread == 0 || !plan.trace.has_run_times) return {};
  return Error{ErrorCode::kInvalidArgument,
               options.workload.trace +
                   " says how long calls run, so nothing of that is drawn; leave out "
                   "--execution-spread"};
}

void print_speed(const std::string& policy_name, const simulator::WorkloadRunTotals& totals,
                 double took_s) {
  std::fprintf(
      stderr, "%s: %llu invocations, %.0f s simulated in %.2f s (%.2f million a second, %.0f MB)\n",
      policy_name.c_str(), static_cast<unsigned long long>(totals.invocations), totals.elapsed_s,
      took_s, static_cast<double>(totals.invocations) * 1e-6 / std::max(took_s, 1e-9),
      peak_rss_mb());
}

void add_totals(const simulator::WorkloadRunTotals& totals, cli::RunFigures& figures) {
  if (totals.moves_in + totals.moves_out > 0) {
    figures.moves = {.in = totals.moves_in,
                     .out = totals.moves_out,
                     .bytes = totals.moved,
                     .prefetches = totals.prefetches,
                     .prefetch_hits = totals.prefetch_hits};
  }
  if (totals.foreseen.started > 0) {
    figures.foreseen = {.started = totals.foreseen.started,
                        .used = totals.foreseen.used,
                        .wasted = totals.foreseen.wasted};
  }
  for (const simulator::TenantTotals& tenant : totals.tenants) {
    figures.tenants.push_back({.name = tenant.name,
                               .weight = tenant.weight,
                               .invocations = tenant.invocations,
                               .failed = tenant.failed,
                               .mean_s = tenant.mean_s(),
                               .gpu_time_s = tenant.gpu_time_s});
  }
  figures.summary = totals.summary;
  figures.utilisation = totals.utilisation;
}

}  // namespace

std::string path_of_policy(const SimulateOptions& options, const std::string& path,
                           const std::string& policy) {
  if (options.policies.size() == 1 && !options.clairvoyant) return path;
  const size_t dot = path.rfind('.');
  const size_t slash = path.rfind('/');
  const bool has_ending = dot != std::string::npos && (slash == std::string::npos || dot > slash);
  const size_t at = has_ending ? dot : path.size();
  return path.substr(0, at) + "-" + policy + path.substr(at);
}

Result<cli::RunFigures> simulate(const SimulateOptions& options, const std::string& policy_name,
                                 const BeginHook& begins) {
  ASSIGN_OR_RETURN(SchedulerSettings settings, settings_of(options));
  ASSIGN_OR_RETURN(cli::ReplayPlan plan, cli::make_plan(options.workload));
  RETURN_IF_ERROR(check_devices(options, plan));
  RETURN_IF_ERROR(check_spread(options, plan));
  simulator::WorkloadRunOptions run = options.run;
  const bool knows_all = policy_name == kClairvoyant;
  if (knows_all) RETURN_IF_ERROR(know_all(plan, settings, run));
  ASSIGN_OR_RETURN(auto policy,
                   scheduling::make_policy(knows_all ? scheduling::kDefaultPolicy : policy_name,
                                           settings.policy));
  run.dispatch = settings.dispatch;
  run.device.move_off_holds_token = false;
  cli::RunFigures figures;
  figures.label = policy_name;
  figures.header = header_of(options, plan, policy_name);
  figures.assumptions = plan.assumptions;
  simulator::WorkloadRunSinks sinks;
  std::ofstream out;
  const std::string path = path_of_policy(options, options.out, policy_name);
  if (!options.out.empty()) {
    out.open(path, std::ios::trunc);
    if (!out) return Error{ErrorCode::kInvalidArgument, "cannot write " + path};
    out << line_of(figures.header);
    run.reading_period = from_seconds(options.reading_s);
    sinks.record = [&](const workload::RunRecord& record) { out << line_of(record); };
    sinks.reading = [&](const workload::RunReading& reading) { out << line_of(reading); };
  }
  if (begins) {
    sinks.begins = [&](const simulator::Simulation& simulation) {
      std::vector<std::string> names;
      for (const auto& function : plan.trace.functions) names.push_back(function.name);
      return begins(simulation, names);
    };
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds_passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  Progress progress(options, policy_name, plan.trace.length);
  sinks.progress = [&](uint64_t outcomes, Duration simulated) {
    progress.show(outcomes, simulated, seconds_passed());
  };
  const auto finished =
      simulator::run_workload(plan.trace, plan.entries, run, std::move(policy), sinks);
  progress.clear();
  if (!finished.ok()) return finished.error();
  const simulator::WorkloadRunTotals& totals = *finished;
  if (totals.invocations == 0) return no_arrivals(options);
  if (out.is_open()) {
    out << line_of(workload::RunEnd{totals.elapsed_s});
    out.close();
    if (!out) return Error{ErrorCode::kDataLoss, "could not write all of " + path};
  }
  if (!options.quiet) print_speed(policy_name, totals, seconds_passed());
  add_totals(totals, figures);
  return figures;
}

}  // namespace lambent::bin
