#include "bin/simulate_options.h"

#include "bin/flag_checks.h"
#include "bin/lambent_paths.h"
#include "bin/shown_names.h"
#include "bin/trace_flags.h"
#include "core/base/fd.h"
#include "core/domain/function_limits.h"
#include "decide/scheduling/make_policy.h"
#include "sim/workload/node_profile.h"

namespace lambent::bin {
namespace {

constexpr size_t kLongestProfile = 1 << 20;

Result<void> apply_profile(const CLI::App& app, SimulateOptions& options) {
  ASSIGN_OR_RETURN(const std::string text, read_file(options.profile, kLongestProfile));
  ASSIGN_OR_RETURN(const workload::NodeProfile profile,
                   workload::parse_profile(text, options.profile));
  const auto left_open = [&](const char* flag) { return app.count(flag) == 0; };
  if (left_open("--gpus")) options.gpus = profile.devices;
  if (left_open("--memory")) {
    options.memory_gib = static_cast<double>(profile.device_memory.count) / (1ull << 30);
  }
  simulator::WorkloadRunOptions& run = options.run;
  if (left_open("--slowdown")) run.device.contention = profile.contention;
  options.gpu = profile.gpu;
  if (left_open("--sandbox-ms")) run.sandbox_time = from_seconds(profile.sandbox_s);
  if (left_open("--link")) {
    run.device.link_bytes_per_second = profile.host_to_device_bytes_per_s;
    run.device.link_out_bytes_per_second = profile.device_to_host_bytes_per_s;
    run.device.first_out_seconds_per_gib = profile.first_out_s_per_gib;
  }
  run.device.run_overhead = from_seconds(profile.run_overhead_s);
  run.device.stop_time = from_seconds(profile.stop_s);
  run.init_floor = from_seconds(profile.init_floor_s);
  run.init_overhead = from_seconds(profile.init_overhead_s);
  run.request_overhead = from_seconds(profile.request_overhead_s);
  run.context_memory = profile.context_memory;
  return {};
}

// How the scheduler decides, and over what.
void add_scheduler_flags(CLI::App& app, SimulateOptions& options) {
  app.add_option("--policy", options.policies, "one or several, with commas between them")
      ->check(shown_names(scheduling::policy_names()))
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--set", options.settings,
                 "KEY=VALUE for the scheduler; see docs/reference/scheduling.md")
      ->allow_extra_args(false);
  app.add_option("--tenant", options.tenants,
                 "a tenant: NAME,KEY=VALUE,... with weight, concurrency, gpu-memory, host-memory, "
                 "gpu-time (seconds an hour), functions=A+B (none: of all others in turn)")
      ->allow_extra_args(false);
  app.add_option("--gpus", options.gpus, "number of GPUs")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--concurrency", options.concurrency, "D: invocations at once on a GPU")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  options.run.max_concurrency = limits::kDefaultConcurrency;
  app.add_option("--max-concurrency", options.run.max_concurrency,
                 "invocations of one function that may run at once, each in its sandbox")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--pool", options.pool, "sandboxes kept at most, on all devices together")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--memory", options.memory_gib, "GiB of each device")
      ->check(within(0.001, 1e6))
      ->capture_default_str();
  app.add_option("--keep-alive", options.keep_alive_s,
                 "seconds after which an idle sandbox is stopped")
      ->check(within(0.0, 1e9))
      ->capture_default_str();
  app.add_option("--longest-wait", options.longest_wait_s,
                 "seconds after which a waiting invocation is rejected")
      ->check(within(0.0, 1e9))
      ->capture_default_str();
}

// What devices and functions take in the model.
void add_model_flags(CLI::App& app, SimulateOptions& options) {
  app.add_option("--profile", options.profile,
                 "a node as 'lambent calibrate' measured it, for what other flags leave open");
  app.add_option("--slowdown", options.run.device.slowdown,
                 "with n at work on a device each takes 1 + SLOWDOWN (n - 1) times as long")
      ->check(within(0.0, 100.0))
      ->capture_default_str();
  app.add_option("--phases", options.phases,
                 "invocations are on host, link and device by turns, as the catalogue has it; "
                 "kernels take 'turns' or run side by side ('mps'), and --slowdown is theirs")
      ->check(CLI::IsMember({"turns", "mps"}));
  app.add_option("--kernel-scale", options.kernel_scale,
                 "with --phases: kernels take so many times as long as the catalogue has it, and "
                 "the host the less")
      ->needs("--phases")
      ->check(within(0.01, 100.0))
      ->capture_default_str();
  app.add_option("--sandbox-ms", options.sandbox_ms,
                 "milliseconds of a cold start before the runtime's own start")
      ->check(within(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--link", options.link_gb_per_s,
                 "GB/s at which memory moves onto a device, and as fast off it")
      ->check(within(1e-3, 1e6))
      ->capture_default_str();
  app.add_option(
         "--host-share", options.run.device.host_share,
         "share of an execution that needs no device yet and overlaps with its memory's move")
      ->check(within(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--touched", options.run.device.touched,
                 "of the memory that moved off a device, the share that comes back: what functions "
                 "use; the rest is offloaded")
      ->check(within(0.0, 1.0))
      ->capture_default_str();
  app.add_flag("--cpu-variants", options.run.cpu_variants,
               "each function may run on the host's processors too, and takes the catalogue's "
               "CPU time there; --set hybrid= says when");
  app.add_flag("--learn-speedups{false}", options.run.declares_speedup,
               "CPU variants do not declare their speed-up, it has to be learnt");
  app.add_option("--cpu-start-saving", options.cpu_start_saving_s,
                 "seconds that a CPU variant's own start is shorter than one with a GPU")
      ->check(within(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--execution-spread", options.run.spread,
                 "execution times vary uniformly by this share")
      ->check(within(0.0, 1.0))
      ->capture_default_str();
}

// Which arrivals there are.
void add_workload_flags(CLI::App& app, SimulateOptions& options) {
  app.add_option("--start", options.start_s, "seconds into the trace where the window begins")
      ->check(within(0.0, 1e9))
      ->capture_default_str();
  app.add_option("--duration", options.duration_s, "seconds of the window (0: to its end)")
      ->check(within(0.0, 1e9))
      ->capture_default_str();
  add_trace_flags(app, options.workload.read);
  app.add_option("--seed", options.workload.read.seed, "seed of everything that is drawn")
      ->check(whole_number())
      ->capture_default_str();
  app.add_flag("--resample", options.workload.resamples,
               "draw each function's arrivals again, by --seed, from the gaps that it has in the "
               "trace");
  app.add_option("--load", options.workload.load, "offered load of a generated workload")
      ->check(within(1e-6, 1e6))
      ->capture_default_str();
}

// What is done with the results.
void add_result_flags(CLI::App& app, SimulateOptions& options) {
  app.add_option("--out", options.out,
                 "a result file for 'lambent report'; with several policies, one for each: "
                 "FILE-POLICY")
      ->check(output_file());
  app.add_option("--csv", options.csv,
                 "a row per policy and function; with --what-if per run and function")
      ->check(output_file());
  app.add_option("--reading", options.reading_s, "seconds between readings in the result file")
      ->check(within(0.001, 1e9))
      ->capture_default_str();
  app.add_flag("--json", options.json, "results as JSON");
  app.add_flag("--quiet", options.quiet, "no progress");
}

}  // namespace

void add_simulate_flags(CLI::App& app, SimulateOptions& options) {
  options.workload.catalogue = bin::find_shared("catalogue/mqfq_table1.csv");
  app.add_option("TRACE", options.workload.trace, kTraceHelp);
  app.add_option("--functions", options.workload.catalogue, "the catalogue: what functions take");
  add_scheduler_flags(app, options);
  add_model_flags(app, options);
  add_workload_flags(app, options);
  add_result_flags(app, options);
}

Result<void> finish_simulate_flags(const CLI::App& app, SimulateOptions& options) {
  options.workload.read.start = from_seconds(options.start_s);
  options.workload.read.length = from_seconds(options.duration_s);
  options.workload.phases = !options.phases.empty();
  options.run.seed = options.workload.read.seed;
  options.run.sandbox_time = from_seconds(options.sandbox_ms * 1e-3);
  options.run.host_init_saving = from_seconds(options.cpu_start_saving_s);
  options.run.device.link_bytes_per_second = options.link_gb_per_s * 1e9;
  options.run.device.link_out_bytes_per_second = options.link_gb_per_s * 1e9;
  options.run.tenants.clear();
  for (const std::string& text : options.tenants) {
    ASSIGN_OR_RETURN(simulator::SimulatedTenant tenant, simulator::parse_tenant(text));
    options.run.tenants.push_back(std::move(tenant));
  }
  if (!options.profile.empty()) RETURN_IF_ERROR(apply_profile(app, options));
  if (!options.phases.empty()) {
    const bool turns = options.phases == "turns";
    options.run.phases = simulator::PhaseOptions{.kernel_scale = options.kernel_scale};
    options.run.device.sharing =
        turns ? simulator::Sharing::kTurns : simulator::Sharing::kSideBySide;
    if (app.count("--slowdown") == 0) options.run.device.slowdown = turns ? 1 : 0;
  }
  // A context is what no move takes along.
  options.run.device.stays = options.run.context_memory;
  return {};
}

Result<SchedulerSettings> settings_of(const SimulateOptions& options) {
  SchedulerSettings settings = default_settings();
  dispatch::DispatchOptions& dispatch = settings.dispatch;
  // As the worker has it, unless the settings say otherwise.
  dispatch.fleet.memory_rule = scheduling::MemoryRule::kMoveIdle;
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

}  // namespace lambent::bin
