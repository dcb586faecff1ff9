#include "sim/workload/known_tables.h"

#include <algorithm>
#include <cstdio>
#include <initializer_list>

#include "sim/workload/exact_rows.h"

namespace lambent::workload {
namespace {

Error bad(const std::string& why) { return Error{ErrorCode::kInvalidArgument, why}; }

bool has_all(const RowReader& rows, std::initializer_list<std::string_view> columns) {
  return std::all_of(columns.begin(), columns.end(),
                     [&](std::string_view name) { return rows.column(name).has_value(); });
}

// Of a column that is there.
size_t at(const RowReader& rows, std::string_view name) { return *rows.column(name); }

TimeColumn time_at(const RowReader& rows, const std::string& name, TimeUnit unit) {
  return {.at = at(rows, name), .name = name, .unit = unit};
}

// ---- Our own

Result<std::optional<TableLayout>> own_layout(const RowReader& rows, const std::string& file,
                                              const std::string& time, TimeUnit unit) {
  TableLayout layout{.format = "exact", .time = time_at(rows, time, unit), .is_relative = true};
  const auto function = function_column(rows);
  if (!function) {
    return bad(file + " line 1: the header has no column 'function' or 'func'");
  }
  // A user who gives times of execution, say, has to learn that they would not be used.
  for (size_t i = 0; i < rows.header().size(); ++i) {
    if (i == layout.time->at || i == *function) continue;
    return bad(file + " line 1: nothing is known of the column " + quoted(rows.header()[i]) +
               ": rows have " + time +
               " and function; leave it out, or name with --column what "
               "columns say");
  }
  layout.function.push_back({.at = *function});
  return std::optional(std::move(layout));
}

// ---- Models that read and write tokens

std::string rate_text(double rate) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", rate);
  return text;
}

// With a function that the rows name, or none.
TableLayout token_layout(const RowReader& rows, std::string format, TimeColumn time,
                         std::string_view input, std::string_view output,
                         std::optional<std::string_view> function, const TokenRates& rates) {
  TableLayout layout{.format = std::move(format),
                     .time = std::move(time),
                     .input_tokens = at(rows, input),
                     .output_tokens = at(rows, output),
                     .rates = rates};
  if (function) layout.function.push_back({.at = at(rows, *function)});
  return layout;
}

std::optional<TableLayout> known_tokens(const RowReader& rows, const TokenRates& rates) {
  // 2023 and 2024; 2025 counts images as well.
  if (has_all(rows, {"TIMESTAMP", "ContextTokens", "GeneratedTokens"})) {
    auto layout = token_layout(rows, "azure_llm", time_at(rows, "TIMESTAMP", TimeUnit::kDate),
                               "ContextTokens", "GeneratedTokens", std::nullopt, rates);
    if (rows.column("NumImages")) {
      layout.assumptions.push_back("NumImages is not used: images take no time");
    }
    return layout;
  }
  // BurstGPT.
  if (has_all(rows, {"Timestamp", "Model", "Request tokens", "Response tokens"})) {
    return token_layout(rows, "burstgpt", time_at(rows, "Timestamp", TimeUnit::kSeconds),
                        "Request tokens", "Response tokens", "Model", rates);
  }
  // Mooncake.
  if (has_all(rows, {"timestamp", "input_length", "output_length"})) {
    return token_layout(rows, "mooncake", time_at(rows, "timestamp", TimeUnit::kMilliseconds),
                        "input_length", "output_length", std::nullopt, rates);
  }
  return std::nullopt;
}

// ---- Alibaba

std::optional<TableLayout> known_alibaba(const RowReader& rows) {
  // openb_pod_list_*.csv of 2023.
  if (has_all(rows, {"num_gpu", "gpu_milli", "cpu_milli", "memory_mib", "creation_time",
                     "deletion_time", "scheduled_time"})) {
    TableLayout layout{.format = "alibaba_gpu_2023",
                       .time = time_at(rows, "creation_time", TimeUnit::kSeconds),
                       .start = time_at(rows, "scheduled_time", TimeUnit::kSeconds),
                       .end = time_at(rows, "deletion_time", TimeUnit::kSeconds)};
    for (const char* name : {"num_gpu", "gpu_milli", "cpu_milli", "memory_mib"}) {
      layout.function.push_back({.at = at(rows, name)});
    }
    layout.gpu_count = at(rows, "num_gpu");
    layout.filters = {{.at = at(rows, "num_gpu"),
                       .keeps = RowFilter::Keeps::kAboveZero,
                       .others_than = {},
                       .because = "ask for no GPU"},
                      {.at = at(rows, "scheduled_time"),
                       .keeps = RowFilter::Keeps::kFilled,
                       .others_than = {},
                       .because = "were never scheduled"},
                      {.at = at(rows, "deletion_time"),
                       .keeps = RowFilter::Keeps::kFilled,
                       .others_than = {},
                       .because = "have no end"}};
    layout.assumptions = {
        "a pod is an invocation, from scheduled_time to deletion_time, of the function "
        "num_gpu-gpu_milli-cpu_milli-memory_mib",
        "shares of a GPU (gpu_milli) only tell functions apart"};
    return layout;
  }
  // disaggregated_DLRM_trace.csv of 2025.
  if (has_all(rows, {"instance_sn", "app_name", "gpu_request", "creation_time", "deletion_time"})) {
    TableLayout layout{.format = "alibaba_gpu_2025",
                       .time = time_at(rows, "creation_time", TimeUnit::kSeconds),
                       .end = time_at(rows, "deletion_time", TimeUnit::kSeconds),
                       .function = {{.at = at(rows, "app_name")}}};
    layout.filters = {{.at = at(rows, "gpu_request"),
                       .keeps = RowFilter::Keeps::kAboveZero,
                       .others_than = {},
                       .because = "ask for no GPU"},
                      {.at = at(rows, "creation_time"),
                       .keeps = RowFilter::Keeps::kFilled,
                       .others_than = {},
                       .because = "were there before the trace began"},
                      {.at = at(rows, "deletion_time"),
                       .keeps = RowFilter::Keeps::kFilled,
                       .others_than = {},
                       .because = "have no end"}};
    layout.assumptions = {"an instance is an invocation of its app_name, for as long as it lives"};
    return layout;
  }
  // lora_request_trace.csv of 2026.
  if (has_all(rows, {"gmt_create", "exec_time_seconds", "checkpoint_model_version_id"})) {
    TableLayout layout{.format = "alibaba_genai_2026",
                       .time = time_at(rows, "gmt_create", TimeUnit::kDate),
                       .duration = time_at(rows, "exec_time_seconds", TimeUnit::kSeconds),
                       .function = {{.at = at(rows, "checkpoint_model_version_id")}}};
    if (const auto status = rows.column("predict_status")) {
      layout.filters.push_back({.at = *status,
                                .keeps = RowFilter::Keeps::kOthersThan,
                                .others_than = {"PENDING", "PROCESSING"},
                                .because = "were not done"});
    }
    layout.assumptions = {
        "a request is an invocation of the function checkpoint_model_version_id, for "
        "exec_time_seconds"};
    return layout;
  }
  return std::nullopt;
}

// ---- Huawei

// The request tables of 2025.
std::optional<TableLayout> known_huawei(const RowReader& rows) {
  if (!has_all(rows, {"time_worker", "funcName", "userID", "podID", "runtimeCost"})) {
    return std::nullopt;
  }
  return TableLayout{
      .format = "huawei_requests_2025",
      .time = time_at(rows, "time_worker", TimeUnit::kSeconds),
      .duration = time_at(rows, "runtimeCost", TimeUnit::kSeconds),
      .function = {{.at = at(rows, "funcName")},
                   {.at = at(rows, "userID")},
                   {.at = at(rows, "podID"), .without_last_part = true}},
      .name_joint = "---",
      .assumptions = {"requests come at time_worker and run for runtimeCost; functions are called "
                      "funcName---userID---pool, as in the counts of the same release"}};
}

// ---- What holds no invocations

// A file of a release that we know, and what of it to take instead.
struct OtherTable {
  std::initializer_list<std::string_view> columns;
  std::string_view what;
};

const OtherTable kOthers[] = {
    {{"timestamp_anon", "value"},
     "measurements of Alibaba's GenAI 2026 and no requests: its lora_request_trace.csv has these"},
    {{"sn", "cpu_milli", "gpu", "model"},
     "the nodes of Alibaba's cluster and no invocations: openb_pod_list_default.csv has its pods"},
    {{"totalCost_cold_start"},
     "cold starts of Huawei's functions and no requests: the requests of a day are in its request "
     "tables, and counts a minute in quantiles/R1/requests"},
    {{"HashFunction", "Average", "Count"},
     "how long Azure's functions run and not when: invocations_per_function_md.anon.d01.csv and "
     "those after it have the counts"},
    {{"HashApp", "SampleCount"},
     "the memory of Azure's apps and no invocations: invocations_per_function_md.anon.d01.csv and "
     "those after it have the counts"},
    {{"time", "machineId"},
     "how busy Philly's machines were and no jobs: these are in its cluster_job_log, which "
     "docs/reference/traces.md says how to convert"},
};

}  // namespace

Result<std::optional<TableLayout>> known_layout(const RowReader& rows, const std::string& file,
                                                const TokenRates& rates) {
  if (rows.column("t_ms")) return own_layout(rows, file, "t_ms", TimeUnit::kMilliseconds);
  if (rows.column("t_s")) return own_layout(rows, file, "t_s", TimeUnit::kSeconds);
  if (auto layout = known_tokens(rows, rates)) {
    layout->assumptions.push_back("a call takes its input tokens / " +
                                  rate_text(rates.input_per_s) + " and its output tokens / " +
                                  rate_text(rates.output_per_s) +
                                  " s, a guess (--token-rates IN,OUT)");
    return layout;
  }
  if (auto layout = known_alibaba(rows)) return layout;
  if (auto layout = known_huawei(rows)) return layout;
  for (const OtherTable& other : kOthers) {
    if (has_all(rows, other.columns)) {
      return bad(file + " line 1: these are " + std::string(other.what));
    }
  }
  if (rows.header().size() == 1 && rows.column("runtime")) {
    return bad(file +
               " line 1: these are how long jobs ran (Philly) and not when they came, which "
               "no order of jobs can be simulated without");
  }
  return std::optional<TableLayout>();
}

Error unknown_header(const RowReader& rows, const std::string& file) {
  const bool numbers_only =
      std::all_of(rows.header().begin(), rows.header().end(),
                  [](const std::string& name) { return number_of(name).has_value(); });
  if (numbers_only) {
    return bad(file +
               " line 1: a row of numbers stands where a header names the columns; "
               "--header NAME,NAME,... names them");
  }
  return bad(file +
             " line 1: not a trace that we know. Headers begin with t_ms,function or t_s,function "
             "(exact times), fid or HashFunction with one column per minute (counts), day,time "
             "with one column per function (counts), or have func,end_timestamp,duration; of a "
             "table with a row per invocation, --column time=NAME and function=NAME tell its "
             "columns, and docs/reference/traces.md more");
}

}  // namespace lambent::workload
