#include "bin/what_if_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "edge/cli/text_table.h"
#include "sim/workload/csv.h"

namespace lambent::bin {
namespace {

constexpr size_t kMostPrinted = 20;   // functions of the table
constexpr size_t kMostInJson = 1000;  // functions
constexpr size_t kMostBlamed = 3;     // functions that are named for the model's error
constexpr double kErrorToSay = 0.05;  // from here on the error is explained
constexpr double kPartToSay = 0.1;    // of a function's difference, from here on a part is named

struct Row {
  size_t ran = 0;
  uint64_t failed = 0;
  double mean_s = 0, p50_s = 0, p99_s = 0;
  double queue_s = 0, cold_s = 0, memory_s = 0, run_s = 0;  // means
  double cold_ratio = 0;
};

Row row_of(const RunOutcomes& outcomes) {
  Row row{.ran = outcomes.latencies_s.size(), .failed = outcomes.failed};
  if (row.ran == 0) return row;
  std::vector<double> sorted = outcomes.latencies_s;
  std::sort(sorted.begin(), sorted.end());
  const auto count = static_cast<double>(row.ran);
  for (const double latency_s : sorted) row.mean_s += latency_s / count;
  row.p50_s = sorted[row.ran / 2];
  row.p99_s = sorted[std::min(row.ran - 1, row.ran * 99 / 100)];
  row.queue_s = outcomes.queue_s / count;
  row.cold_s = outcomes.cold_s / count;
  row.memory_s = outcomes.memory_s / count;
  row.run_s = outcomes.run_s / count;
  row.cold_ratio = static_cast<double>(outcomes.cold) / count;
  return row;
}

std::string fixed(double value, int digits) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

double sum_of(const RunOutcomes& outcomes) {
  return outcomes.queue_s + outcomes.cold_s + outcomes.memory_s + outcomes.run_s;
}

const RunOutcomes& of(const WhatIfRun& run, FunctionId function) {
  static const RunOutcomes kNone;
  const auto found = run.by_function.find(function);
  return found == run.by_function.end() ? kNone : found->second;
}

std::string name_of(const WhatIfReport& report, FunctionId function) {
  const auto found = report.names.find(function);
  return found == report.names.end() ? "function " + std::to_string(function.value) : found->second;
}

// The functions of the runs, those first that took the most time in what was recorded.
std::vector<FunctionId> functions_of(const WhatIfReport& report) {
  std::map<FunctionId, double> seconds;
  for (const WhatIfRun& run : report.runs) {
    for (const auto& [function, outcomes] : run.by_function) seconds[function];
  }
  for (auto& [function, sum] : seconds) sum = sum_of(of(report.runs.front(), function));
  std::vector<FunctionId> functions;
  for (const auto& [function, sum] : seconds) functions.push_back(function);
  std::ranges::stable_sort(functions, std::greater{},
                           [&](FunctionId function) { return seconds[function]; });
  return functions;
}

std::vector<std::string> cells_of(const Row& row) {
  return {std::to_string(row.ran),
          std::to_string(row.failed),
          fixed(row.mean_s, 3),
          fixed(row.p50_s, 3),
          fixed(row.p99_s, 3),
          fixed(row.queue_s, 3),
          fixed(row.cold_ratio * 100, 1) + " %"};
}

nlohmann::json json_of(const Row& row, const std::string& label) {
  return {{"run", label},
          {"ran", row.ran},
          {"failed", row.failed},
          {"mean_s", row.mean_s},
          {"p50_s", row.p50_s},
          {"p99_s", row.p99_s},
          {"queue_mean_s", row.queue_s},
          {"cold_mean_s", row.cold_s},
          {"memory_mean_s", row.memory_s},
          {"run_mean_s", row.run_s},
          {"cold_ratio", row.cold_ratio}};
}

double error_of(const WhatIfReport& report) {
  const double recorded = row_of(report.runs[0].all).mean_s;
  return recorded > 0 ? row_of(report.runs[1].all).mean_s / recorded - 1 : 0;
}

std::string in_words(const ModelError::Part& part) {
  return part.name + " " + fixed(part.recorded_s, 3) + " s recorded, " +
         fixed(part.simulated_s, 3) + " s simulated";
}

void print_error(const WhatIfReport& report, cli::Console& console) {
  if (row_of(report.runs[0].all).mean_s <= 0) return;
  const double error = error_of(report);
  console.out << "The model's error: its mean is " << fixed(std::abs(error) * 100, 1)
              << " % from the recorded one; compare the two simulated rows with each other.\n";
  if (std::abs(error) < kErrorToSay) return;
  console.out << "What differs most, by function (means):\n";
  size_t said = 0;
  for (const ModelError& each : model_errors(report)) {
    if (said++ == kMostBlamed) break;
    console.out << "  " << name_of(report, each.function) << ", " << fixed(each.share * 100, 0)
                << " % of the difference: ";
    for (size_t i = 0; i < each.parts.size(); ++i) {
      console.out << (i > 0 ? "; " : "") << in_words(each.parts[i]);
    }
    console.out << "\n";
  }
}

}  // namespace

std::vector<ModelError> model_errors(const WhatIfReport& report) {
  std::vector<ModelError> errors;
  double all = 0;
  for (const FunctionId function : functions_of(report)) {
    const RunOutcomes& recorded = of(report.runs[0], function);
    const RunOutcomes& simulated = of(report.runs[1], function);
    ModelError error{.function = function, .seconds = sum_of(simulated) - sum_of(recorded)};
    const Row was = row_of(recorded), is = row_of(simulated);
    error.parts = {{"queue", was.queue_s, is.queue_s},
                   {"cold start", was.cold_s, is.cold_s},
                   {"memory", was.memory_s, is.memory_s},
                   {"run", was.run_s, is.run_s}};
    const auto difference = [](const ModelError::Part& part) {
      return std::abs(part.simulated_s - part.recorded_s);
    };
    std::ranges::stable_sort(error.parts, std::greater{}, difference);
    const double least = kPartToSay * difference(error.parts.front());
    std::erase_if(error.parts,
                  [&](const ModelError::Part& part) { return difference(part) <= least; });
    if (error.parts.empty()) continue;  // nothing differs
    all += std::abs(error.seconds);
    errors.push_back(std::move(error));
  }
  for (ModelError& error : errors) error.share = all > 0 ? std::abs(error.seconds) / all : 0;
  std::ranges::stable_sort(errors, std::greater{}, &ModelError::share);
  return errors;
}

void print(const WhatIfReport& report, cli::Console& console) {
  cli::TextTable table(
      {"RUN", ">RAN", ">FAILED", ">MEAN s", ">P50 s", ">P99 s", ">QUEUE s", ">COLD"});
  const auto add = [](cli::TextTable& to, std::vector<std::string> head, const Row& row) {
    for (std::string& cell : cells_of(row)) head.push_back(std::move(cell));
    to.add(std::move(head));
  };
  for (const WhatIfRun& run : report.runs) add(table, {run.label}, row_of(run.all));
  console.out << table.str();
  const std::vector<FunctionId> functions = functions_of(report);
  cli::TextTable each(
      {"FUNCTION", "RUN", ">RAN", ">FAILED", ">MEAN s", ">P50 s", ">P99 s", ">QUEUE s", ">COLD"});
  const size_t shown = std::min(functions.size(), kMostPrinted);
  for (size_t i = 0; i < shown; ++i) {
    for (const WhatIfRun& run : report.runs) {
      const bool is_first = &run == &report.runs.front();
      add(each, {is_first ? name_of(report, functions[i]) : "", run.label},
          row_of(of(run, functions[i])));
    }
  }
  if (shown > 0) console.out << "\n" << each.str();
  if (shown < functions.size()) {
    console.out << "and " << functions.size() - shown
                << " more functions, which took less time; --csv FILE has all\n";
  }
  console.out << "\n";
  print_error(report, console);
  if (report.unmeasured > 0) {
    console.out << report.unmeasured
                << " arrivals never ran, or were not over: they take their function's mean.\n";
  }
}

nlohmann::json json_of(const WhatIfReport& report) {
  nlohmann::json json = {
      {"unmeasured", report.unmeasured},
      {"rows", nlohmann::json::array()},
      {"functions", nlohmann::json::array()},
      {"model_error", {{"of_mean", error_of(report)}, {"functions", nlohmann::json::array()}}}};
  for (const WhatIfRun& run : report.runs) {
    json["rows"].push_back(json_of(row_of(run.all), run.label));
  }
  const std::vector<FunctionId> functions = functions_of(report);
  for (size_t i = 0; i < std::min(functions.size(), kMostInJson); ++i) {
    nlohmann::json rows = nlohmann::json::array();
    for (const WhatIfRun& run : report.runs) {
      rows.push_back(json_of(row_of(of(run, functions[i])), run.label));
    }
    json["functions"].push_back(
        {{"function", name_of(report, functions[i])}, {"rows", std::move(rows)}});
  }
  size_t told = 0;
  for (const ModelError& each : model_errors(report)) {
    if (told++ == kMostPrinted) break;
    nlohmann::json parts = nlohmann::json::array();
    for (const ModelError::Part& part : each.parts) {
      parts.push_back({{"part", part.name},
                       {"recorded_mean_s", part.recorded_s},
                       {"simulated_mean_s", part.simulated_s}});
    }
    json["model_error"]["functions"].push_back({{"function", name_of(report, each.function)},
                                                {"share", each.share},
                                                {"seconds", each.seconds},
                                                {"differs", std::move(parts)}});
  }
  return json;
}

std::string csv_of(const WhatIfReport& report) {
  std::ostringstream rows;
  rows << "run,function,invocations,failed,mean_s,p50_s,p99_s,cold_ratio,queue_mean_s,cold_mean_s,"
          "memory_mean_s,run_mean_s\n";
  for (const WhatIfRun& run : report.runs) {
    for (const FunctionId function : functions_of(report)) {
      const Row row = row_of(of(run, function));
      rows << workload::csv_field(run.label) << ','
           << workload::csv_field(name_of(report, function)) << ',' << row.ran << ',' << row.failed
           << ',' << row.mean_s << ',' << row.p50_s << ',' << row.p99_s << ',' << row.cold_ratio
           << ',' << row.queue_s << ',' << row.cold_s << ',' << row.memory_s << ',' << row.run_s
           << '\n';
    }
  }
  return rows.str();
}

}  // namespace lambent::bin
