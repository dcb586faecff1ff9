// A workload through the simulator: arrivals of a trace, each function modelled by its entry of the
// catalogue, and what came of it. Used by lambent-simulator; one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/result.h"
#include "sim/simulator/simulated_tenants.h"
#include "sim/simulator/simulation.h"
#include "sim/workload/catalogue.h"
#include "sim/workload/result_file.h"
#include "sim/workload/trace.h"

namespace lambent::simulator {

// Runs in phases, as the catalogue has them. DeviceModel's slowdown and contention are then those
// of kernels: 1 where they take turns that cost nothing, 0 where they run side by side.
struct PhaseOptions {
  double kernel_scale = 1;  // Phases::with_kernels
};

struct WorkloadRunOptions {
  dispatch::DispatchOptions dispatch;
  DeviceModel device;
  FaultModel faults;
  Duration sandbox_time = milliseconds(5);  // of a cold start, before the runtime's own
  // The runtime's start takes at least the floor, and so much longer than the function's own.
  Duration init_floor{};
  Duration init_overhead{};
  Duration request_overhead{};   // of each invocation's latency, before and after the worker
  Bytes context_memory;          // of each sandbox beside the function's own
  double spread = 0;             // of execution times, see FunctionModel
  unsigned max_concurrency = 1;  // of each function
  // Whether each function has a CPU variant, which takes the catalogue's time on a core; and
  // whether it declares its speed-up or that has to be learnt.
  bool cpu_variants = false;
  bool declares_speedup = true;
  // By how much the runtime's own start is shorter on the host than with a GPU, and what it takes
  // at least (if it takes as long with a GPU). Guesses: the paper has some 3 s for TensorFlow.
  Duration host_init_saving = seconds(3);
  Duration least_host_init = milliseconds(250);
  Duration timeout{};                    // of each invocation; zero: never
  std::vector<SimulatedTenant> tenants;  // none: all functions are of one
  uint64_t seed = 1;
  // Nothing: an invocation is on the device all the time, and what one more at work adds is the
  // device's constant.
  std::optional<PhaseOptions> phases;
  // What a clairvoyant knows (Dispatcher::foretell); empty: nothing is known.
  scheduling::Foresight::Oracle oracle;
  // Utilisation is read this often for `reading`; zero: never.
  Duration reading_period{};
};

struct WorkloadRunSinks {
  // All may be empty. `progress` comes every some thousand outcomes.
  std::function<void(const workload::RunRecord&)> record;
  std::function<void(const workload::RunReading&)> reading;
  std::function<void(uint64_t outcomes, Duration simulated)> progress;
  // Before the first arrival, with all functions registered; the simulation lives until the run is
  // over. What it returns sees every event from then on (may be empty).
  std::function<Observer(const Simulation&)> begins;
};

struct WorkloadRunTotals {
  uint64_t invocations = 0;
  // Where memory moves: how often it did, how much of it, and what came of fetching it ahead.
  uint64_t moves_in = 0, moves_out = 0;
  Bytes moved;
  uint64_t prefetches = 0, prefetch_hits = 0;
  dispatch::ForeseenStarts::Counts foreseen;  // sandboxes started ahead of calls
  uint64_t host_runs = 0;                     // of functions that use a GPU, as CPU variants
  uint64_t log_hash = 0;  // of all events and decisions: two runs compared by one number
  workload::Summary summary;
  std::vector<TenantTotals> tenants;  // as in the options
  double elapsed_s = 0;               // simulated, to the last outcome
  double utilisation = 0;             // mean of the devices over that time
};

// Each function as its entry of the catalogue has it; the first one's id is 1.
std::vector<FunctionModel> models_of(const std::vector<workload::CatalogueEntry>& entries,
                                     const WorkloadRunOptions& options);
// What a clairvoyant knows of these, which are sorted by time: when each function is called next.
scheduling::Foresight::Oracle oracle_of(const std::vector<workload::Arrival>& arrivals,
                                        size_t functions);
// A grace period and a T that are as good as none: the shortest work first, for a clairvoyant.
constexpr Duration kNoOrderButCost = seconds(100'000);

// `entries`: one for each function of the trace, whose arrivals are used up. If these fail, so does
// the run, and what the sinks got is a part of it. INVALID_ARGUMENT as tenants_of() has it, and for
// an entry without phases where these are asked for.
Result<WorkloadRunTotals> run_workload(workload::Trace& trace,
                                       const std::vector<workload::CatalogueEntry>& entries,
                                       const WorkloadRunOptions& options,
                                       std::unique_ptr<scheduling::Policy> policy,
                                       const WorkloadRunSinks& sinks);

}  // namespace lambent::simulator
