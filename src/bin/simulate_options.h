// What `lambent simulate` and `lambent sweep` may be told: the workload, the modelled devices, the
// scheduler. Parsed from flags; read by simulate_run.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bin/scheduler_settings.h"
#include "core/base/result.h"
#include "edge/cli/replay.h"
#include "sim/simulator/workload_run.h"

namespace lambent::bin {

// The name of that run.
constexpr std::string_view kClairvoyant = "clairvoyant";

struct SimulateOptions {
  cli::ReplayOptions workload;
  double start_s = 0, duration_s = 0;
  std::vector<std::string> policies{std::string(scheduling::kDefaultPolicy)};
  std::vector<std::string> settings;
  unsigned gpus = 1, concurrency = 2, pool = 64;
  double memory_gib = 16, keep_alive_s = 600, longest_wait_s = 300;
  double sandbox_ms = 5, reading_s = 1, link_gb_per_s = 10, cpu_start_saving_s = 3;
  std::string profile;
  std::string gpu;          // of the profile; empty: there is none
  std::string phases;       // how kernels share a device; empty: no phases
  double kernel_scale = 1;  // on the catalogue's kernel times
  // One more run, of a scheduler that knows all calls (kClairvoyant).
  bool clairvoyant = false;
  std::vector<std::string> tenants;
  simulator::WorkloadRunOptions run;
  std::string out, csv;
  bool json = false, quiet = false;
};

// Adds every flag to `app`; they write into `options`, which must live until it has parsed.
void add_simulate_flags(CLI::App& app, SimulateOptions& options);
// After `app` has parsed them: what follows from the flags, and from the profile for what they
// leave open. Errors as parse_profile; NOT_FOUND if there is no such file.
Result<void> finish_simulate_flags(const CLI::App& app, SimulateOptions& options);

// The scheduler and its devices as the flags have them. INVALID_ARGUMENT for a bad --set.
Result<SchedulerSettings> settings_of(const SimulateOptions& options);

}  // namespace lambent::bin
