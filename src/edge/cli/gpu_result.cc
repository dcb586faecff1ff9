#include "edge/cli/gpu_result.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

// A figure of a step that the table shows, where the step has it.
struct Figure {
  std::string_view step;
  const char* where;  // a JSON pointer into the step's result
  std::string_view label;
};

constexpr Figure kGpuFigures[] = {
    {"machine", "/driver/name", ""},
    {"machine", "/driver/cuda", "CUDA"},
    {"swap", "/out_share_of_pinned/268435456", "out, of a pinned copy"},
    {"swap", "/in_share_of_pinned/268435456", "in"},
    {"shim", "/forward_ns", "a call, ns"},
    {"shim", "/bare_ns", "bare"},
    {"shim", "/alloc_us", "an allocation, us"},
    {"shim", "/bare_alloc_us", "bare"},
    {"checkpoint", "/bytes", "bytes"},
    {"checkpoint", "/checkpoint_s", "off, s"},
    {"checkpoint", "/restore_s", "back, s"},
    {"green_contexts", "/multiprocessors", "multiprocessors"},
    {"green_contexts", "/contexts", "contexts"},
    {"green_contexts", "/median_ms", "one made in ms"},
    {"mps", "/both_of_alone", "two clients, of a single one"},
    {"contention", "/together_of_alone", "two at once, of a single one"},
    {"contention", "/by_turns_of_alone", "by turns"},
    {"contention", "/longest_wait_ms", "longest wait, ms"},
    {"blas", "/cublas_version", "cuBLAS"},
    {"blas", "/beyond_tolerance", "beyond tolerance"},
    {"device", "/device", ""},
    {"device", "/launch/submit_us", "a launch, us"},
    {"device", "/context/primary_context_us", "a context, us"},
    {"calibrate", "/sandbox_ms", "a sandbox, ms"},
    {"calibrate", "/overhead_ms", "added to a run, ms"},
    {"conformance", "/cases", "cases"},
    {"conformance", "/failed", "failed"},
    {"conformance", "/skipped", "skipped"},
};

std::string figure_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number_float()) return value.dump();
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value.get<double>());
  return text;
}

// A cell keeps to its row and column.
std::string table_cell(const std::string& text) {
  std::string kept;
  for (const char c : text) {
    if (c == '|') kept += '\\';
    kept += c == '\n' ? ' ' : c;
  }
  return kept;
}

std::string word_at(const Json& object, const char* key) {
  return object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : "";
}

// Of a program in several ways: the rate beside the bare one, and how often memory moved.
void add_ways(const Json& result, std::vector<std::string>& figures) {
  if (!result.contains("ways") || !result["ways"].is_object()) return;
  for (const auto& [way, row] : result["ways"].items()) {
    if (!row.is_object() || way == "bare") continue;
    std::string said = way + " ";
    said += row.value("same", Json(false)) == true ? "same" : "NOT THE SAME";
    if (row.contains("of_bare") && row["of_bare"].is_number()) {
      said += ", " + figure_text(row["of_bare"]) + " of bare";
    }
    figures.push_back(said);
  }
}

// Of the doctor: what is not good.
void add_findings(const Json& result, std::vector<std::string>& figures) {
  if (!result.contains("findings") || !result["findings"].is_array()) return;
  for (const Json& finding : result["findings"]) {
    if (!finding.is_object()) continue;
    const std::string health = word_at(finding, "health");
    if (health != "good") figures.push_back(health + ": " + word_at(finding, "subject"));
  }
}

std::string figures_of_step(const std::string& step, const Json& result) {
  std::vector<std::string> figures;
  if (!result.is_object()) return "";
  for (const Figure& figure : kGpuFigures) {
    if (figure.step != step) continue;
    const Json::json_pointer where(figure.where);
    if (!result.contains(where)) continue;
    const Json& value = result[where];
    if (value.is_structured() || value.is_null()) continue;
    figures.push_back((figure.label.empty() ? "" : std::string(figure.label) + " ") +
                      figure_text(value));
  }
  add_ways(result, figures);
  add_findings(result, figures);
  std::string joined;
  for (const std::string& figure : figures) joined += (joined.empty() ? "" : "; ") + figure;
  return joined;
}

std::string seconds_of(const Json& step) {
  return step.contains("seconds") && step["seconds"].is_number() ? figure_text(step["seconds"])
                                                                 : "";
}

}  // namespace

Result<std::optional<std::string>> gpu_table(std::string_view text, const std::string& file) {
  const Json result = Json::parse(text, nullptr, false);
  if (!result.is_object() || word_at(result, "name") != "gpu") {
    return std::optional<std::string>();
  }
  if (!result.contains("steps") || !result["steps"].is_array()) {
    return Error{ErrorCode::kInvalidArgument,
                 file + " is a result of ./dev gpu without a list of steps"};
  }
  std::string table = "| step | outcome | s | figures | reason |\n|---|---|---|---|---|\n";
  for (const Json& step : result["steps"]) {
    if (!step.is_object() || word_at(step, "name").empty() || word_at(step, "outcome").empty()) {
      return Error{ErrorCode::kInvalidArgument, file + " has a step without name and outcome"};
    }
    const std::string name = word_at(step, "name");
    table += "| " + table_cell(name) + " | " + table_cell(word_at(step, "outcome")) + " | " +
             seconds_of(step) + " | " +
             table_cell(figures_of_step(name, step.value("result", Json()))) + " | " +
             table_cell(word_at(step, "reason")) + " |\n";
  }
  if (result.value("emulated", Json(false)) == true) {
    table += "\nAn emulated GPU: times are modelled, none is of a GPU.\n";
  }
  if (result.value("complete", Json(false)) != true) table += "\nCut off: steps are missing.\n";
  return std::optional<std::string>(std::move(table));
}

}  // namespace lambent::cli
