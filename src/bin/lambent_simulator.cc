// lambent-simulator: a workload under one or several policies on modelled devices, with the
// worker's own dispatch and scheduling. `lambent simulate` starts it.
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <fstream>
#include <iostream>

#include "bin/lambent_paths.h"
#include "bin/scheduler_settings.h"
#include "cli/console.h"
#include "cli/replay_plan.h"
#include "cli/run_summary.h"
#include "scheduling/make_policy.h"
#include "simulator/workload_run.h"

namespace {

using namespace lambent;

struct Options {
  cli::ReplayOptions workload;
  double start_s = 0, duration_s = 0;
  std::string spread = "uniform";
  std::vector<std::string> policies{"mqfq-sticky"};
  std::vector<std::string> settings;
  unsigned gpus = 1, concurrency = 2, pool = 64;
  double memory_gib = 16, keep_alive_s = 600, longest_wait_s = 300;
  double sandbox_ms = 5, reading_s = 1;
  simulator::WorkloadRunOptions run;
  std::string out, csv;
  bool json = false, quiet = false;
};

std::optional<int> parse(int argc, char** argv, Options& options) {
  CLI::App app(
      "A workload on modelled GPUs, scheduled by the worker's own code, faster than time.\n"
      "Every figure is simulated.\n\n"
      "Example: lambent simulate t7.csv --policy mqfq-sticky,fcfs --gpus 2 --pool 32",
      "lambent simulate");
  options.workload.catalogue = bin::find_shared("catalogue/mqfq_table1.csv");
  app.add_option(
      "TRACE", options.workload.trace,
      "t_ms,function rows, Azure minute counts or Azure 2021; plain or .gz. Without one, "
      "a workload is generated from --seed");
  app.add_option("--functions", options.workload.catalogue, "the catalogue: what functions take");
  app.add_option("--policy", options.policies,
                 "one or several of mqfq-sticky, mqfq-uniform, fcfs, fcfs-naive, batch")
      ->delimiter(',');
  app.add_option("--set", options.settings, "KEY=VALUE for the scheduler; see docs/scheduling.md");
  app.add_option("--gpus", options.gpus, "devices")->check(CLI::Range(1, 4096));
  app.add_option("--concurrency", options.concurrency, "D: invocations at once on a GPU")
      ->check(CLI::Range(1, 1024));
  app.add_option("--pool", options.pool, "sandboxes kept at most, on all devices together")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--memory", options.memory_gib, "GiB of each device")
      ->check(CLI::Range(0.001, 1e6));
  app.add_option("--keep-alive", options.keep_alive_s,
                 "seconds after which an idle sandbox is stopped")
      ->check(CLI::Range(0.0, 1e9));
  app.add_option("--longest-wait", options.longest_wait_s,
                 "seconds after which a waiting invocation is rejected")
      ->check(CLI::Range(0.0, 1e9));
  app.add_option("--slowdown", options.run.device.slowdown,
                 "with n at work on a device each takes 1 + SLOWDOWN (n - 1) times as long")
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--sandbox-ms", options.sandbox_ms, "of a cold start, before the runtime's own")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--execution-spread", options.run.spread,
                 "execution times vary uniformly by this share")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--start", options.start_s, "seconds into the trace where the window begins")
      ->check(CLI::Range(0.0, 1e9));
  app.add_option("--duration", options.duration_s, "seconds of the window (0: to its end)")
      ->check(CLI::Range(0.0, 1e9));
  app.add_option("--rate-scale", options.workload.read.rate_scale,
                 "the trace runs this many times as fast")
      ->check(CLI::Range(1e-6, 1e9));
  app.add_option("--spread", options.spread, "where arrivals lie in a minute of counts")
      ->check(CLI::IsMember({"uniform", "equidistant", "poisson"}));
  app.add_option("--busiest", options.workload.read.busiest, "only the N busiest functions");
  app.add_option("--only", options.workload.read.only, "only these functions")->delimiter(',');
  app.add_option("--seed", options.workload.read.seed, "of everything that is drawn");
  app.add_option("--load", options.workload.load, "offered load of a generated workload")
      ->check(CLI::Range(1e-6, 1e6));
  app.add_flag("--skip-bad-rows", options.workload.read.skip_bad_rows,
               "instead of refusing the trace");
  app.add_option("--out", options.out,
                 "a result file for 'lambent report'; with several policies, one for each: "
                 "FILE-POLICY");
  app.add_option("--csv", options.csv, "a row per policy and function");
  app.add_option("--reading", options.reading_s, "seconds between readings in the result file")
      ->check(CLI::Range(0.001, 1e9));
  app.add_flag("--json", options.json, "results as JSON");
  app.add_flag("--quiet", options.quiet, "no progress");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  options.workload.read.start = from_seconds(options.start_s);
  options.workload.read.length = from_seconds(options.duration_s);
  options.workload.read.spreading = *workload::spreading_from_name(options.spread);
  options.run.seed = options.workload.read.seed;
  options.run.sandbox_time = from_seconds(options.sandbox_ms * 1e-3);
  return std::nullopt;
}

Result<SchedulerSettings> settings_of(const Options& options) {
  SchedulerSettings settings;
  dispatch::DispatchOptions& dispatch = settings.dispatch;
  // As the worker has it: a sandbox's memory stays on the device for as long as it lives.
  settings.policy.fcfs_moves_off_after_run = false;
  for (unsigned i = 0; i < options.gpus; ++i) {
    dispatch.fleet.devices.push_back(
        {.id = DeviceId{i + 1},
         .memory = Bytes(static_cast<uint64_t>(options.memory_gib * (1ull << 30))),
         .tokens = options.concurrency,
         .contexts = options.pool});
  }
  dispatch.fleet.most_sandboxes = options.pool;
  dispatch.keep_alive = from_seconds(options.keep_alive_s);
  dispatch.longest_wait = from_seconds(options.longest_wait_s);
  RETURN_IF_ERROR(apply_settings(options.settings, settings));
  return settings;
}

// "run-fcfs.jsonl" for "run.jsonl" where several policies each write their own.
std::string out_path(const Options& options, const std::string& policy) {
  if (options.policies.size() == 1) return options.out;
  const size_t dot = options.out.rfind('.');
  const size_t slash = options.out.rfind('/');
  const bool has_ending = dot != std::string::npos && (slash == std::string::npos || dot > slash);
  const size_t at = has_ending ? dot : options.out.size();
  return options.out.substr(0, at) + "-" + policy + options.out.substr(at);
}

double peak_rss_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

Result<cli::RunFigures> simulate(const Options& options, const std::string& policy_name) {
  ASSIGN_OR_RETURN(SchedulerSettings settings, settings_of(options));
  ASSIGN_OR_RETURN(auto policy, scheduling::make_policy(policy_name, settings.policy));
  ASSIGN_OR_RETURN(cli::ReplayPlan plan, cli::make_plan(options.workload));
  simulator::WorkloadRunOptions run = options.run;
  run.dispatch = settings.dispatch;
  run.device.move_off_holds_token = false;
  cli::RunFigures figures;
  figures.label = policy_name;
  figures.header = {.source = "simulation",
                    .trace = plan.trace.name,
                    .policy = policy_name,
                    .rate_scale = options.workload.read.rate_scale,
                    .duration_s = options.duration_s,
                    .seed = options.workload.read.seed,
                    .devices = options.gpus};
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    figures.header.functions.push_back(
        {plan.trace.functions[i].name, plan.entries[i].name, plan.entries[i].gpu_warm_s});
  }
  simulator::WorkloadRunSinks sinks;
  std::ofstream out;
  if (!options.out.empty()) {
    const std::string path = out_path(options, policy_name);
    out.open(path, std::ios::trunc);
    if (!out) return Error{ErrorCode::kInvalidArgument, "cannot write " + path};
    out << line_of(figures.header);
    run.reading_period = from_seconds(options.reading_s);
    sinks.record = [&](const workload::RunRecord& record) { out << line_of(record); };
    sinks.reading = [&](const workload::RunReading& reading) { out << line_of(reading); };
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds_passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const bool shows_progress = !options.quiet && isatty(STDERR_FILENO) != 0;
  sinks.progress = [&, last = 0.0](uint64_t outcomes, Duration simulated) mutable {
    const double now_s = seconds_passed();
    if (!shows_progress || now_s < last + 0.5) return;
    last = now_s;
    std::fprintf(stderr, "\r%s: %.1f s simulated, %.1f million invocations, %.2f million a second ",
                 policy_name.c_str(), to_seconds(simulated), static_cast<double>(outcomes) * 1e-6,
                 static_cast<double>(outcomes) * 1e-6 / now_s);
  };
  const auto totals =
      simulator::run_workload(plan.trace, plan.entries, run, std::move(policy), sinks);
  if (shows_progress) std::fprintf(stderr, "\r\x1b[K");
  if (out.is_open()) {
    out << line_of(workload::RunEnd{totals.elapsed_s});
    out.close();
    if (!out) return Error{ErrorCode::kDataLoss, "could not write all of " + options.out};
  }
  const double took_s = seconds_passed();
  if (!options.quiet) {
    std::fprintf(
        stderr,
        "%s: %llu invocations, %.0f s simulated in %.2f s (%.2f million a second, %.0f MB)\n",
        policy_name.c_str(), static_cast<unsigned long long>(totals.invocations), totals.elapsed_s,
        took_s, static_cast<double>(totals.invocations) * 1e-6 / std::max(took_s, 1e-9),
        peak_rss_mb());
  }
  figures.summary = totals.summary;
  figures.utilisation = totals.utilisation;
  return figures;
}

Result<void> write_csv(const std::string& path, const std::vector<cli::RunFigures>& runs) {
  std::ofstream file(path, std::ios::trunc);
  file << "policy,function,invocations,failed,mean_s,p50_s,p99_s,cold_ratio,queue_mean_s,cold_mean_"
          "s,run_mean_s\n";
  for (const cli::RunFigures& run : runs) {
    for (const workload::FunctionSummary& f : run.summary.functions) {
      file << run.label << ',' << f.name << ',' << f.count << ',' << f.failed << ',' << f.mean_s
           << ',' << f.p50_s << ',' << f.p99_s << ',' << f.cold_ratio << ',' << f.queue_mean_s
           << ',' << f.cold_mean_s << ',' << f.run_mean_s << '\n';
    }
  }
  file.close();
  if (!file) return Error{ErrorCode::kInvalidArgument, "cannot write " + path};
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (const auto exit_code = parse(argc, argv, options)) return *exit_code;
  cli::Console console{std::cout, std::cerr, options.json, isatty(STDERR_FILENO) != 0};
  std::vector<cli::RunFigures> runs;
  for (const std::string& policy : options.policies) {
    auto run = simulate(options, policy);
    if (!run.ok()) return cli::fail(console, run.error());
    runs.push_back(std::move(run).value());
  }
  if (!options.csv.empty()) {
    if (const auto written = write_csv(options.csv, runs); !written.ok()) {
      return cli::fail(console, written.error());
    }
  }
  if (!options.json) {
    std::cout << cli::table_of(runs) << "All figures are simulated.\n";
    return 0;
  }
  std::string text;
  for (const cli::RunFigures& run : runs) text += (text.empty() ? "" : ",\n") + cli::json_of(run);
  std::cout << "[" << text << "]\n";
  return 0;
}
