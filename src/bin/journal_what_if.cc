#include "bin/journal_what_if.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "bin/measured_workload.h"
#include "bin/scheduler_settings.h"
#include "edge/cli/text_table.h"
#include "node/journal_store/segment_files.h"
#include "sim/simulator/gpu_counts.h"
#include "sim/workload/limits.h"

namespace lambent::bin {
namespace {

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

Result<RunOutcomes> simulate_with(const MeasuredWorkload& workload, const Settings& settings,
                                  const simulator::DeviceModel& device) {
  ASSIGN_OR_RETURN(auto policy,
                   scheduling::make_policy(settings.policy, settings.scheduler.policy));
  const std::vector<simulator::FunctionModel> functions = workload.functions();
  RETURN_IF_ERROR(simulator::check_gpu_counts(
      functions, [](FunctionId id) { return std::to_string(id.value); },
      settings.scheduler.dispatch.fleet, *policy));
  RunOutcomes outcomes;
  simulator::Simulation simulation(
      {.dispatch = settings.scheduler.dispatch, .device = device, .functions = functions},
      std::move(policy),
      [&](const simulator::SimulatedInvocation& invocation) { outcomes.add(invocation.outcome); });
  const std::vector<simulator::Arrival> arrivals = workload.arrivals();
  simulation.run(simulator::arrivals_from(arrivals));
  return outcomes;
}

struct Row {
  std::string label;
  size_t ran = 0;
  uint64_t failed = 0;
  double mean_s = 0, p50_s = 0, p99_s = 0, queue_mean_s = 0, cold_ratio = 0;
};

Row row_of(std::string label, RunOutcomes outcomes) {
  Row row{.label = std::move(label), .ran = outcomes.latencies_s.size(), .failed = outcomes.failed};
  if (row.ran == 0) return row;
  std::sort(outcomes.latencies_s.begin(), outcomes.latencies_s.end());
  const auto count = static_cast<double>(row.ran);
  for (const double latency_s : outcomes.latencies_s) row.mean_s += latency_s / count;
  row.p50_s = outcomes.latencies_s[row.ran / 2];
  row.p99_s = outcomes.latencies_s[std::min(row.ran - 1, row.ran * 99 / 100)];
  row.queue_mean_s = outcomes.queue_s / count;
  row.cold_ratio = static_cast<double>(outcomes.cold) / count;
  return row;
}

std::string fixed(double value, int digits) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

void print(const std::vector<Row>& rows, const MeasuredWorkload& workload, cli::Console& console) {
  cli::TextTable table(
      {"RUN", ">RAN", ">FAILED", ">MEAN s", ">P50 s", ">P99 s", ">QUEUE s", ">COLD"});
  for (const Row& row : rows) {
    table.add({row.label, std::to_string(row.ran), std::to_string(row.failed), fixed(row.mean_s, 3),
               fixed(row.p50_s, 3), fixed(row.p99_s, 3), fixed(row.queue_mean_s, 3),
               fixed(row.cold_ratio * 100, 1) + " %"});
  }
  console.out << table.str();
  if (rows[0].mean_s > 0) {
    console.out << "The model's error: its mean is "
                << fixed(std::abs(rows[1].mean_s / rows[0].mean_s - 1) * 100, 1)
                << " % from the recorded one; compare the two simulated rows with each other.\n";
  }
  if (workload.unmeasured() > 0) {
    console.out << workload.unmeasured()
                << " arrivals never ran, or were not over: they take their function's mean.\n";
  }
}

nlohmann::json json_of(const std::vector<Row>& rows, const MeasuredWorkload& workload) {
  nlohmann::json json = {{"unmeasured", workload.unmeasured()}, {"rows", nlohmann::json::array()}};
  for (const Row& row : rows) {
    json["rows"].push_back({{"run", row.label},
                            {"ran", row.ran},
                            {"failed", row.failed},
                            {"mean_s", row.mean_s},
                            {"p50_s", row.p50_s},
                            {"p99_s", row.p99_s},
                            {"queue_mean_s", row.queue_mean_s},
                            {"cold_ratio", row.cold_ratio}});
  }
  return json;
}

Result<std::vector<Row>> rows_of(const WhatIfOptions& options, MeasuredWorkload& workload,
                                 std::vector<std::string>& notes) {
  ASSIGN_OR_RETURN(const auto segments, journal_store::open_journal(options.journal));
  journal::ReplaySinks sinks;
  sinks.restored = [&](const auto& header, const auto& dispatcher, const auto&) {
    workload.restored(header, dispatcher);
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
  if (options.last) workload.keep_last(*options.last);
  if (workload.arrivals().empty()) {
    return Error{ErrorCode::kNotFound, options.journal + " holds no arrival after its last start" +
                                           (options.last ? " within the time of --last" : "")};
  }
  Settings settings{.policy = workload.facts().policy,
                    .scheduler = {workload.facts().policy_options, workload.facts().options}};
  std::vector<Row> rows{row_of("recorded", workload.recorded())};
  ASSIGN_OR_RETURN(const RunOutcomes same, simulate_with(workload, settings, options.device));
  rows.push_back(row_of("simulated as recorded", same));
  std::string label = "simulated";
  for (const std::string& change : options.changes) {
    RETURN_IF_ERROR(apply(change, settings));
    label += " " + change;
  }
  ASSIGN_OR_RETURN(const RunOutcomes changed, simulate_with(workload, settings, options.device));
  rows.push_back(row_of(label, changed));
  return rows;
}

}  // namespace

int what_if(const WhatIfOptions& options, cli::Console& console) {
  MeasuredWorkload workload(options.device);
  std::vector<std::string> notes;
  const auto rows = rows_of(options, workload, notes);
  if (!rows.ok()) return cli::fail(console, rows.error());
  for (const std::string& note : notes) console.err << "note: " << note << "\n";
  if (console.json) {
    console.out << json_of(*rows, workload).dump(2) << "\n";
  } else {
    print(*rows, workload, console);
  }
  return 0;
}

}  // namespace lambent::bin
