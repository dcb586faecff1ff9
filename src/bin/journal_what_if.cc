#include "bin/journal_what_if.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "bin/measured_workload.h"
#include "bin/scheduler_settings.h"
#include "bin/what_if_report.h"
#include "core/base/fd.h"
#include "core/base/spelling.h"
#include "node/journal_store/segment_files.h"
#include "sim/simulator/gpu_counts.h"
#include "sim/workload/limits.h"

namespace lambent::bin {
namespace {

using OutcomeSink = MeasuredWorkload::RecordedSink;

struct Settings {
  std::string policy;
  SchedulerSettings scheduler;
};

Error bad_change(const std::string& change) {
  return {ErrorCode::kInvalidArgument, "--what-if " + change +
                                           ": D, T, alpha, policy, pool, gpus, memory (GiB) or a "
                                           "setting of --set, as KEY=VALUE with a "
                                           "value that it can have"};
}

Result<double> number_in(const std::string& change, double least, double most) {
  const std::string text = change.substr(change.find('=') + 1);
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0' || !(number >= least && number <= most)) {
    return bad_change(change);
  }
  return number;
}

Result<void> apply(const std::string& change, Settings& settings) {
  const size_t equals = change.find('=');
  if (equals == std::string::npos) return bad_change(change);
  const std::string key = parameter_name(change.substr(0, equals));
  const std::string value = change.substr(equals + 1);
  scheduling::FleetOptions& fleet = settings.scheduler.dispatch.fleet;
  if (key == "policy") {
    settings.policy = value;
  } else if (key == "concurrency") {
    ASSIGN_OR_RETURN(const double tokens, number_in(change, 1, 1024));
    for (auto& device : fleet.devices) {
      device.tokens = static_cast<unsigned>(tokens);
      device.by_utilisation.reset();
    }
  } else if (key == "pool") {
    ASSIGN_OR_RETURN(const double pool, number_in(change, 1, 1e6));
    fleet.most_sandboxes = static_cast<unsigned>(pool);
    settings.scheduler.dispatch.host_sandboxes = static_cast<unsigned>(pool);
    for (auto& device : fleet.devices) device.contexts = static_cast<unsigned>(pool);
  } else if (key == "gpus") {
    ASSIGN_OR_RETURN(const double gpus, number_in(change, 1, 4096));
    if (fleet.devices.empty()) {
      return Error{ErrorCode::kFailedPrecondition,
                   "--what-if " + change + ": the journal's worker had no GPU to take after"};
    }
    const scheduling::DeviceOptions model = fleet.devices.front();
    fleet.devices.resize(static_cast<size_t>(gpus), model);
    for (uint32_t i = 0; i < fleet.devices.size(); ++i) fleet.devices[i].id = DeviceId{i + 1};
  } else if (key == "memory") {
    ASSIGN_OR_RETURN(const double gib, number_in(change, 0.001, 1e6));
    for (auto& device : fleet.devices) {
      device.memory = Bytes(static_cast<uint64_t>(gib * (1ull << 30)));
    }
  } else if (const auto applied = apply_settings({key + "=" + value}, settings.scheduler);
             !applied.ok()) {
    return bad_change(change);
  }
  return {};
}

Result<void> simulate_with(const MeasuredWorkload& workload, const Settings& settings,
                           const simulator::DeviceModel& device, const OutcomeSink& sink) {
  ASSIGN_OR_RETURN(auto policy,
                   scheduling::make_policy(settings.policy, settings.scheduler.policy));
  const std::vector<simulator::FunctionModel> functions = workload.functions();
  RETURN_IF_ERROR(simulator::check_gpu_counts(
      functions, [](FunctionId id) { return std::to_string(id.value); },
      settings.scheduler.dispatch.fleet, *policy));
  simulator::Simulation simulation(
      {.dispatch = settings.scheduler.dispatch, .device = device, .functions = functions},
      std::move(policy), [&](const simulator::SimulatedInvocation& invocation) {
        sink(invocation.function, invocation.outcome);
      });
  const std::vector<simulator::Arrival> arrivals = workload.arrivals();
  simulation.run(simulator::arrivals_from(arrivals));
  return {};
}

// The functions that are counted; empty: all.
Result<std::set<FunctionId>> counted_functions(const WhatIfOptions& options,
                                               const MeasuredWorkload& workload) {
  std::set<FunctionId> counted;
  std::vector<std::string_view> known;
  for (const auto& [id, name] : workload.names()) known.push_back(name);
  for (const std::string& wanted : options.only) {
    const size_t before = counted.size();
    for (const auto& [id, name] : workload.names()) {
      if (name == wanted) counted.insert(id);
    }
    if (counted.size() > before) continue;
    return Error{ErrorCode::kNotFound, "--only: " + options.journal + " has no function '" +
                                           wanted + "'" +
                                           suggestion(closest_word(wanted, known), "")};
  }
  return counted;
}

std::string window_in_words(const WhatIfOptions& options) {
  if (options.last) return " within the time of --last";
  return options.from || options.to ? " between --from and --to" : "";
}

// What of the journal is asked about.
Result<void> keep_window(const WhatIfOptions& options, MeasuredWorkload& workload) {
  if (options.last) workload.keep_last(*options.last);
  const Duration from = options.from.value_or(Duration(0));
  if (options.to && *options.to <= from) {
    return Error{ErrorCode::kInvalidArgument, "--to is not after --from"};
  }
  if (options.from || options.to) workload.keep_between(from, options.to);
  if (!workload.arrivals().empty()) return {};
  return Error{ErrorCode::kNotFound,
               options.journal + " holds no arrival after its last start" +
                   window_in_words(options) + "; it is " +
                   std::to_string(static_cast<int64_t>(to_seconds(workload.length()))) +
                   " s long from there"};
}

Result<void> read_journal(const WhatIfOptions& options, MeasuredWorkload& workload,
                          std::vector<std::string>& notes) {
  ASSIGN_OR_RETURN(const auto segments, journal_store::open_journal(options.journal));
  journal::ReplaySinks sinks;
  sinks.restored = [&](const auto& header, const auto& dispatcher, const auto& names) {
    workload.restored(header, dispatcher, names);
  };
  sinks.step = [&](const journal::ReplayStep& step) { workload.step(step); };
  journal::ReplayTotals totals;
  RETURN_IF_ERROR(journal::replay(segments, sinks, totals));
  notes = totals.notes;
  if (totals.difference) {
    return Error{ErrorCode::kDataLoss,
                 "event " + std::to_string(totals.difference->event) +
                     " is decided differently by this program: what would have been cannot be "
                     "told from there on; use the lambent that recorded it"};
  }
  if (workload.too_many()) {
    return Error{ErrorCode::kResourceExhausted, "the journal holds more than " +
                                                    std::to_string(limits::kTraceArrivals) +
                                                    " arrivals; name one of its segments"};
  }
  return keep_window(options, workload);
}

Result<WhatIfReport> report_of(const WhatIfOptions& options, std::vector<std::string>& notes) {
  MeasuredWorkload workload(options.device);
  RETURN_IF_ERROR(read_journal(options, workload, notes));
  ASSIGN_OR_RETURN(const std::set<FunctionId> counted, counted_functions(options, workload));
  WhatIfReport report{.runs = {}, .names = {}, .unmeasured = workload.unmeasured()};
  for (const auto& [id, name] : workload.names()) report.names[id] = name;
  // All that arrived is simulated, for the others were in the way of those that are counted.
  const auto add_run = [&](std::string label, const auto& make) -> Result<void> {
    WhatIfRun run{.label = std::move(label), .all = {}, .by_function = {}};
    RETURN_IF_ERROR(make([&](FunctionId function, const dispatch::CompleteInvocation& outcome) {
      if (counted.empty() || counted.contains(function)) run.add(function, outcome);
    }));
    report.runs.push_back(std::move(run));
    return {};
  };
  RETURN_IF_ERROR(add_run("recorded", [&](const OutcomeSink& sink) -> Result<void> {
    workload.recorded(sink);
    return {};
  }));
  Settings settings{.policy = workload.facts().policy,
                    .scheduler = {workload.facts().policy_options, workload.facts().options}};
  const auto simulated = [&](const OutcomeSink& sink) {
    return simulate_with(workload, settings, options.device, sink);
  };
  RETURN_IF_ERROR(add_run("simulated as recorded", simulated));
  std::string label = "simulated";
  for (const std::string& change : options.changes) {
    RETURN_IF_ERROR(apply(change, settings));
    label += " " + change;
  }
  RETURN_IF_ERROR(add_run(label, simulated));
  if (report.runs[0].by_function.empty() && report.runs[1].by_function.empty()) {
    return Error{ErrorCode::kNotFound, "none of these functions was called" +
                                           window_in_words(options) + " in " + options.journal};
  }
  return report;
}

}  // namespace

int what_if(const WhatIfOptions& options, cli::Console& console) {
  std::vector<std::string> notes;
  const auto report = report_of(options, notes);
  if (!report.ok()) return cli::fail(console, report.error());
  for (const std::string& note : notes) console.err << "note: " << note << "\n";
  if (!options.csv.empty()) {
    const auto written = write_file_atomically(options.csv, csv_of(*report), false);
    if (!written.ok()) return cli::fail(console, written.error());
  }
  if (console.json) {
    console.out << json_of(*report).dump(2) << "\n";
  } else {
    print(*report, console);
  }
  return 0;
}

}  // namespace lambent::bin
