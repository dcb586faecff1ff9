#include "edge/cli/replay_plan.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <set>

#include "core/base/random.h"
#include "core/domain/function_limits.h"
#include "core/domain/limits.h"
#include "sim/workload/generator.h"
#include "sim/workload/resampled.h"

namespace lambent::cli {
namespace {

// Modelled seconds that one invocation of a paper function may take before the worker ends it.
constexpr double kGracePeriodFactor = 20;

std::string milliseconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3f", seconds * 1e3);
  return text;
}

std::string number_text(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", number);
  return text;
}

Result<workload::Trace> open_workload(const ReplayOptions& options,
                                      const workload::Catalogue& catalogue) {
  if (!options.trace.empty()) {
    ASSIGN_OR_RETURN(workload::Trace trace, workload::open_trace(options.trace, options.read));
    if (options.resamples) return workload::resample(std::move(trace), options.read.seed);
    return trace;
  }
  if (options.resamples) {
    return Error{
        ErrorCode::kInvalidArgument,
        "--resample draws again what a trace has; a generated workload changes with --seed"};
  }
  workload::GeneratorOptions generator{.offered_load = options.load, .seed = options.read.seed};
  if (options.read.busiest > 0) generator.functions = options.read.busiest;
  // A shorter window is a part of the same workload, so that a run over it is a sample.
  const bool whole = options.read.length == Duration::zero();
  const Duration end = whole ? std::max(generator.duration, options.read.start)
                             : options.read.start + options.read.length;
  generator.duration = std::max(generator.duration, end);
  ASSIGN_OR_RETURN(workload::Trace trace, workload::generate(generator, catalogue));
  ASSIGN_OR_RETURN(trace.length,
                   workload::length_at_rate(end - options.read.start, options.read.rate_scale,
                                            "the generated workload"));
  trace.arrivals = workload::window_of(std::move(trace.arrivals), options.read.start, end,
                                       options.read.rate_scale);
  return trace;
}

Result<workload::Catalogue> open_catalogue(const std::string& path) {
  auto catalogue = workload::open_catalogue(path);
  if (catalogue.ok() || catalogue.error().code != ErrorCode::kNotFound) return catalogue;
  const std::string what = path.empty() ? "Lambent's own is not where it was installed" : path;
  return Error{ErrorCode::kNotFound,
               "there is no catalogue of functions (" + what +
                   "); name one with --functions FILE, such as share/catalogue/mqfq_table1.csv "
                   "of Lambent's source"};
}

std::string phases_text(const workload::Phases& phases) {
  const auto mib = [](Bytes bytes) {
    return number_text(static_cast<double>(bytes.count) / (1 << 20));
  };
  return milliseconds_text(phases.host_s) + "," + mib(phases.copy_in) + "," +
         milliseconds_text(phases.kernel_s) + "," + mib(phases.copy_out) + "," +
         std::to_string(phases.rounds) + "," + number_text(phases.occupancy);
}

// A guess, for the catalogue has no such time: a start without a GPU takes 3 s less (the paper's
// figure for TensorFlow), and a quarter of a second at least.
double cpu_init_s(const workload::CatalogueEntry& entry) {
  return std::max(entry.init_s() - 3.0, std::min(entry.init_s(), 0.25));
}

std::vector<std::string> assumptions_of(const workload::Trace& trace) {
  std::vector<std::string> all = trace.assumptions;
  if (trace.has_run_times) {
    all.push_back(
        "calls run as long as the trace says; starts and memory are those of the catalogue's "
        "longest entry that is not above a function's mean run (--functions)");
  }
  return all;
}

// What stands in for a function, with what the trace says of it itself.
workload::CatalogueEntry entry_of(const workload::TraceFunction& function,
                                  workload::CatalogueEntry entry, const workload::Trace& trace) {
  if (trace.has_run_times && function.recorded_s) {
    entry = workload::with_run_time(std::move(entry), *function.recorded_s);
  }
  if (function.gpu_count) entry.gpu_count = *function.gpu_count;
  return entry;
}

}  // namespace

std::string deployed_name(const std::string& prefix, const std::string& function) {
  std::string name = prefix;
  for (const char c : function) {
    const bool fits = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
    name += fits ? c : '-';
  }
  if (name.size() > limits::kFunctionNameLength) name.resize(limits::kFunctionNameLength);
  return name;
}

Result<ReplayPlan> make_plan(const ReplayOptions& options) {
  ReplayPlan plan;
  ASSIGN_OR_RETURN(plan.catalogue, open_catalogue(options.catalogue));
  ASSIGN_OR_RETURN(plan.trace, open_workload(options, plan.catalogue));
  if (plan.trace.functions.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 options.trace + " has no functions: below its header there is no row"};
  }
  SeededRandom random(options.read.seed);
  ASSIGN_OR_RETURN(const auto entries,
                   workload::assign_entries(plan.trace.functions, plan.catalogue, random));
  if (options.phases && plan.trace.has_run_times) {
    return Error{ErrorCode::kInvalidArgument,
                 options.trace +
                     " says how long calls run, but not what of that is on the device; leave out "
                     "--phases"};
  }
  plan.assumptions = assumptions_of(plan.trace);
  std::set<std::string> taken;
  for (size_t i = 0; i < entries.size(); ++i) {
    plan.entries.push_back(entry_of(plan.trace.functions[i], *entries[i], plan.trace));
    if (options.phases && !entries[i]->phases) {
      return Error{ErrorCode::kInvalidArgument,
                   "the catalogue has no phases of '" + entries[i]->name +
                       "': add its host_s, copy_in_mib, kernel_s and the others, or run without "
                       "--phases"};
    }
    std::string name = deployed_name(options.prefix, plan.trace.functions[i].name);
    // Long names may have become the same: then the number tells them apart.
    if (!taken.insert(name).second) {
      const std::string number = "-" + std::to_string(i);
      name.resize(std::min(name.size(), limits::kFunctionNameLength - number.size()));
      name += number;
      taken.insert(name);
    }
    plan.deployed_names.push_back(std::move(name));
  }
  return plan;
}

FunctionSpec paper_function_spec(const ReplayPlan& plan, size_t index,
                                 const ReplayOptions& options) {
  const workload::CatalogueEntry& entry = plan.entries[index];
  FunctionSpec spec;
  spec.name.name = plan.deployed_names[index];
  spec.description = "stands for " + plan.trace.functions[index].name + " as " + entry.name;
  spec.handler = "bootstrap";
  spec.max_concurrency = options.max_concurrency;
  spec.gpu.memory = entry.device_memory;
  spec.gpu.count = entry.gpu_count;
  spec.gpu.launch_mode = GpuNeeds::LaunchMode::kModel;
  double longest_s = entry.gpu_cold_s + entry.gpu_warm_s;
  if (options.cpu_variants) longest_s = std::max(longest_s, entry.init_s() + entry.cpu_warm_s);
  longest_s *= kGracePeriodFactor / options.time_scale;
  const double most_s = to_seconds(limits::kMostTimeout);
  spec.timeout = from_seconds(std::ceil(std::min(std::max(longest_s, 30.0), most_s)));
  spec.environment = {{"LAMBENT_PAPER_MEMORY_MIB", std::to_string(entry.device_memory.count >> 20)},
                      {"LAMBENT_PAPER_INIT_MS", milliseconds_text(entry.init_s())},
                      {"LAMBENT_PAPER_WARM_MS", milliseconds_text(entry.gpu_warm_s)},
                      {"LAMBENT_TIME_SCALE", number_text(options.time_scale)}};
  if (options.phases) spec.environment["LAMBENT_PAPER_PHASES"] = phases_text(*entry.phases);
  // What takes several GPUs has no variant.
  if (options.cpu_variants && entry.gpu_count == 1) {
    spec.cpu_variant = CpuVariant{.gpu_speedup = entry.cpu_warm_s / entry.gpu_warm_s};
    spec.environment["LAMBENT_PAPER_CPU_INIT_MS"] = milliseconds_text(cpu_init_s(entry));
    spec.environment["LAMBENT_PAPER_CPU_WARM_MS"] = milliseconds_text(entry.cpu_warm_s);
  }
  return spec;
}

}  // namespace lambent::cli
