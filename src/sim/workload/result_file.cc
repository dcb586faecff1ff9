#include "sim/workload/result_file.h"

#include <nlohmann/json.hpp>

#include "core/base/json_text.h"
#include "sim/workload/csv.h"
#include "sim/workload/trace_reader.h"

namespace lambent::workload {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr std::string_view kTorn =
    "; the run was cut off while that line was written: run it again, or take the line out to see "
    "the part that is there";

std::string line(const Json& json) { return json_text(json) + "\n"; }

// Typed access that notes what is missing or of another type instead of throwing.
class Fields {
 public:
  explicit Fields(const Json& json) : json_(json) {}

  double number(const char* key, double otherwise) {
    const auto found = json_.find(key);
    if (found == json_.end()) return otherwise;
    if (!found->is_number()) {
      wrong(key, "a number");
      return otherwise;
    }
    return found->get<double>();
  }
  double required_number(const char* key) {
    if (!json_.contains(key)) wrong(key, "there");
    return number(key, 0);
  }
  double required_seconds(const char* key) {
    const double seconds = required_number(key);
    if (!(seconds >= 0 && seconds < 1e12)) wrong(key, "a time");
    return seconds;
  }
  uint64_t whole(const char* key, uint64_t otherwise) {
    const auto found = json_.find(key);
    if (found == json_.end()) return otherwise;
    if (!found->is_number_unsigned()) {
      wrong(key, "a whole number");
      return otherwise;
    }
    return found->get<uint64_t>();
  }
  std::string text(const char* key) {
    const auto found = json_.find(key);
    if (found == json_.end()) return "";
    if (!found->is_string()) {
      wrong(key, "text");
      return "";
    }
    return found->get<std::string>();
  }
  bool flag(const char* key, bool otherwise) {
    const auto found = json_.find(key);
    return found == json_.end() || !found->is_boolean() ? otherwise : found->get<bool>();
  }
  void wrong(const char* key, const char* expected) {
    if (wrong_.empty()) wrong_ = "'" + std::string(key) + "' is not " + expected;
  }
  const std::string& what_is_wrong() const { return wrong_; }

 private:
  const Json& json_;
  std::string wrong_;
};

std::string read_header(const Json& json, RunHeader& header) {
  Fields fields(json);
  if (fields.whole("lambent_run", 0) != kFormat) return "this is not a result file of this version";
  header = {.source = fields.text("source"),
            .trace = fields.text("trace"),
            .policy = fields.text("policy"),
            .time_scale = fields.number("time_scale", 1),
            .rate_scale = fields.number("rate_scale", 1),
            .duration_s = fields.number("duration_s", 0),
            .seed = fields.whole("seed", 0),
            .devices = static_cast<unsigned>(fields.whole("devices", 1)),
            .emulated = fields.flag("emulated", true)};
  if (json.contains("overhead_s")) header.overhead_s = fields.number("overhead_s", 0);
  const auto functions = json.find("functions");
  if (functions == json.end() || !functions->is_array()) return "'functions' is not a list";
  for (const Json& each : *functions) {
    if (!each.is_object()) return "'functions' is not a list of objects";
    Fields inner(each);
    header.functions.push_back({.name = inner.text("name"),
                                .catalogue_entry = inner.text("entry"),
                                .warm_s = inner.number("warm_s", 0)});
    if (!inner.what_is_wrong().empty()) return inner.what_is_wrong();
  }
  return fields.what_is_wrong();
}

std::optional<RunOutcome> outcome_from_name(std::string_view name) {
  for (const RunOutcome outcome :
       {RunOutcome::kSucceeded, RunOutcome::kFunctionError, RunOutcome::kRejected,
        RunOutcome::kFailed, RunOutcome::kDropped, RunOutcome::kUnfinished}) {
    if (name == name_of(outcome)) return outcome;
  }
  return std::nullopt;
}

std::optional<StartClass> start_from_name(std::string_view name) {
  for (const StartClass start : {StartClass::kCold, StartClass::kGpuCold, StartClass::kWarm}) {
    if (name == name_of(start)) return start;
  }
  return std::nullopt;
}

std::string read_record(const Json& json, const RunHeader& header, RunRecord& record) {
  Fields fields(json);
  const uint64_t function = fields.whole("function", UINT64_MAX);
  if (function >= header.functions.size()) return "'function' is not an index of the header's list";
  const auto outcome = outcome_from_name(fields.text("outcome"));
  if (!outcome) return "'outcome' is not one that we know";
  record = {.at_s = fields.required_seconds("at_s"), .outcome = *outcome};
  record.error = fields.text("error");
  if (json.contains("in_time")) record.sample.in_time = fields.flag("in_time", false);
  record.invocation = fields.text("invocation");
  const uint64_t device = fields.whole("device", 0);
  if (device > header.devices) return "'device' is not one of the header's";
  record.device = static_cast<uint32_t>(device);
  record.sample.function = static_cast<uint32_t>(function);
  record.sample.succeeded = *outcome == RunOutcome::kSucceeded;
  if (record.sample.succeeded) {
    const auto start = start_from_name(fields.text("start"));
    if (!start) return "'start' is not one that we know";
    record.sample.start = *start;
    record.sample.latency_s = fields.required_seconds("latency_s");
    record.sample.queue_s = fields.required_seconds("queue_s");
    record.sample.cold_s = fields.required_seconds("cold_s");
    record.sample.run_s = fields.required_seconds("run_s");
    // Only of runs that were without their memory for a while.
    if (json.contains("memory_s")) {
      record.sample.memory_s = fields.required_seconds("memory_s");
    }
  }
  return fields.what_is_wrong();
}

// Reads one line into the run; what is wrong with it, or nothing.
std::string read_line(std::string_view text, bool first, RunFile& run) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return "not a JSON object";
  if (first) return read_header(json, run.header);
  if (json.contains("function")) {
    RunRecord record;
    std::string wrong = read_record(json, run.header, record);
    if (wrong.empty()) run.records.push_back(std::move(record));
    return wrong;
  }
  Fields fields(json);
  if (json.contains("elapsed_s")) {
    run.end = RunEnd{fields.required_seconds("elapsed_s")};
  } else {
    RunReading reading{.at_s = fields.required_seconds("reading_at_s"),
                       .in_flight = fields.whole("in_flight", 0)};
    if (json.contains("utilisation")) reading.utilisation = fields.number("utilisation", 0);
    if (json.contains("lag_s")) reading.lag_s = fields.number("lag_s", 0);
    if (fields.what_is_wrong().empty()) run.readings.push_back(reading);
  }
  return fields.what_is_wrong();
}

}  // namespace

std::string_view name_of(RunOutcome outcome) {
  switch (outcome) {
    case RunOutcome::kSucceeded:
      return "succeeded";
    case RunOutcome::kFunctionError:
      return "function_error";
    case RunOutcome::kRejected:
      return "rejected";
    case RunOutcome::kFailed:
      return "failed";
    case RunOutcome::kDropped:
      return "dropped";
    case RunOutcome::kUnfinished:
      return "unfinished";
  }
  return "unknown";
}

std::string line_of(const RunHeader& header) {
  Json json = {{"lambent_run", kFormat},          {"source", header.source},
               {"trace", header.trace},           {"policy", header.policy},
               {"time_scale", header.time_scale}, {"rate_scale", header.rate_scale},
               {"duration_s", header.duration_s}, {"seed", header.seed},
               {"devices", header.devices},       {"emulated", header.emulated}};
  if (header.overhead_s) json["overhead_s"] = *header.overhead_s;
  json["functions"] = Json::array();
  for (const RunFunction& function : header.functions) {
    json["functions"].push_back({{"name", function.name},
                                 {"entry", function.catalogue_entry},
                                 {"warm_s", function.warm_s}});
  }
  return line(json);
}

std::string line_of(const RunRecord& record) {
  Json json = {{"function", record.sample.function},
               {"at_s", record.at_s},
               {"outcome", name_of(record.outcome)}};
  if (record.sample.succeeded) {
    json["start"] = name_of(record.sample.start);
    json["latency_s"] = record.sample.latency_s;
    json["queue_s"] = record.sample.queue_s;
    json["cold_s"] = record.sample.cold_s;
    json["run_s"] = record.sample.run_s;
    if (record.sample.memory_s > 0) json["memory_s"] = record.sample.memory_s;
  }
  if (record.sample.in_time) json["in_time"] = *record.sample.in_time;
  if (record.device > 0) json["device"] = record.device;
  if (!record.invocation.empty()) json["invocation"] = record.invocation;
  if (!record.error.empty()) json["error"] = record.error;
  return line(json);
}

std::string line_of(const RunReading& reading) {
  Json json = {{"reading_at_s", reading.at_s}, {"in_flight", reading.in_flight}};
  if (reading.utilisation) json["utilisation"] = *reading.utilisation;
  if (reading.lag_s) json["lag_s"] = *reading.lag_s;
  return line(json);
}

std::string line_of(const RunEnd& end) { return line({{"elapsed_s", end.elapsed_s}}); }

Result<RunFile> read_run(LineReader& lines, const std::string& file) {
  RunFile run{.name = file};
  BadRows bad(file);
  size_t number = 0;
  size_t last_bad = 0;
  for (;;) {
    auto text = lines.next();
    ++number;
    if (!text.ok()) return text.error().with_context(file + " line " + std::to_string(number));
    if (!text.value().has_value()) break;
    if (text.value()->empty()) continue;
    const bool first = number == 1;
    if (std::string wrong = read_line(**text, first, run); !wrong.empty()) {
      bad.add(number, wrong);
      last_bad = number;
      if (first) break;
    }
  }
  const bool is_torn = bad.count() == 1 && last_bad + 1 == number && !run.end;
  RETURN_IF_ERROR(bad.verdict(is_torn ? kTorn : ""));
  if (run.header.functions.empty()) {
    return Error{ErrorCode::kInvalidArgument, file + " line 1: there is no header with functions"};
  }
  return run;
}

Result<RunFile> open_run(const std::string& path) {
  ASSIGN_OR_RETURN(const auto lines, open_lines(path));
  return read_run(*lines, path);
}

Summary summarise(const RunFile& run) {
  std::vector<std::string> names;
  std::vector<double> warm_s;
  for (const RunFunction& function : run.header.functions) {
    names.push_back(function.name);
    warm_s.push_back(function.warm_s);
  }
  RunStatistics statistics(std::move(names), std::move(warm_s));
  for (const RunRecord& record : run.records) statistics.add(record.sample);
  return statistics.summary(run.end ? run.end->elapsed_s : 0, run.header.devices);
}

std::optional<double> mean_utilisation(const std::vector<RunReading>& readings) {
  Moments mean;
  for (const RunReading& reading : readings) {
    if (reading.utilisation) mean.add(*reading.utilisation);
  }
  if (mean.count() == 0) return std::nullopt;
  return mean.mean();
}

std::optional<double> overhead_share(const RunHeader& header, const Summary& summary) {
  if (!header.overhead_s || summary.count == 0 || summary.mean_s <= 0) return std::nullopt;
  return header.time_scale * *header.overhead_s / summary.mean_s;
}

}  // namespace lambent::workload
