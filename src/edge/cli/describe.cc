#include "edge/cli/describe.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "core/base/units.h"
#include "edge/cli/api_json.h"
#include "edge/cli/invocation_rows.h"
#include "edge/cli/json_cells.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kLastOnes = "5";

// What stands above the settings already, or is a state and no setting.
constexpr const char* kToldElsewhere[] = {"name",
                                          "queued",
                                          "running",
                                          "completed",
                                          "sandboxes",
                                          "instances_ready",
                                          "instances_starting",
                                          "instance_failures",
                                          "next_instance_start_seconds"};

bool is_one_of(const std::string& key, std::span<const char* const> names) {
  return std::ranges::any_of(names, [&](const char* one) { return key == one; });
}

// Settings of HTTP functions, of sandboxes, and of a GPU, of functions that have none.
bool is_of_another_kind(const std::string& key, const Json& function) {
  if (key.starts_with("http_")) return cell(function, "kind") != "http";
  if (key.starts_with("async_") && cell(function, "kind") == "http") return true;
  const bool may_be_none = key == "async_max_age_seconds" || key == "slo_ms";
  if (may_be_none && number(function, key.c_str()) == 0) return true;
  constexpr const char* kOfSandboxes[] = {
      "runtime",       "memory_bytes",      "cpus", "scratch_bytes", "shared_memory_bytes",
      "min_instances", "keep_alive_seconds"};
  if (cell(function, "kind") == "workflow" && is_one_of(key, kOfSandboxes)) return true;
  if (number(function, "gpu_memory_bytes") > 0) return false;
  constexpr const char* kOfGpus[] = {"checkpoint",  "gpu_memory_bytes", "gpu_count",
                                     "gpu_runtime", "gpu_share",        "launch_mode",
                                     "memory_mode", "working_set"};
  return is_one_of(key, kOfGpus);
}

// "2026-11-28 20:04:05 UTC"
std::string date_of(double since_epoch_s) {
  const auto whole = static_cast<std::time_t>(since_epoch_s);
  std::tm time{};
  gmtime_r(&whole, &time);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &time)};
}

bool is_empty(const Json& value) {
  return value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty()) ||
         (value.is_structured() && value.empty());
}

// Of a list of mounts or schedules an entry, without what it leaves open: "at /weights, volume w".
std::string entry_text(const Json& entry) {
  if (!entry.is_object()) return entry.is_string() ? entry.get<std::string>() : entry.dump();
  std::string text;
  for (const auto& [key, value] : entry.items()) {
    // What is on or off is told where it is not as it mostly is.
    const bool is_usual = value.is_boolean() && value.get<bool>() == (key == "enabled");
    if (is_empty(value) || is_usual) continue;
    text += (text.empty() ? "" : ", ") + key + " " + entry_text(value);
  }
  return text;
}

// "memory_bytes": 536870912 as "memory" and "512 MiB"; "timeout_seconds": 30 as "timeout", "30 s".
std::pair<std::string, std::string> shown(const std::string& key, const Json& row) {
  const auto without = [&](std::string_view end) { return key.substr(0, key.size() - end.size()); };
  if (key.ends_with("_bytes") && row[key].is_number()) {
    return {without("_bytes"), to_string(Bytes(row[key].get<uint64_t>()))};
  }
  for (const std::string_view end : {"_seconds", "_s"}) {
    if (!key.ends_with(end) || !row[key].is_number()) continue;
    const double amount = row[key].get<double>();
    if (key.starts_with("last_modified")) return {without(end), date_of(amount)};
    return {without(end), amount < 0 ? "as the worker says" : human_seconds(amount)};
  }
  if (key == "async_retries") {
    const auto retries = static_cast<int>(number(row, key.c_str()));
    return {key, retries < 0 ? "as the worker says" : std::to_string(retries)};
  }
  if (key == "cpus" && number(row, "cpus") == 0) return {key, "no quota"};
  if (!row[key].is_array()) return {key, cell(row, key.c_str())};
  std::string entries;
  for (const Json& entry : row[key]) entries += (entries.empty() ? "" : "; ") + entry_text(entry);
  return {key, entries};
}

void add_line(std::string& text, const std::string& name, const std::string& value) {
  constexpr size_t kColumn = 22;
  text += "  " + name + std::string(name.size() < kColumn ? kColumn - name.size() : 1, ' ') +
          value + "\n";
}

std::string activity_text(const Json& activity) {
  std::string text;
  const auto count = [&](const char* key) { return cell(activity, key); };
  add_line(text, "now",
           count("queued") + " queued, " + count("running") + " running, " + count("sandboxes") +
               " sandboxes");
  add_line(text, "starts",
           count("cold") + " cold, " + count("gpu_cold") + " GPU-cold, " + count("warm") + " warm");
  add_line(text, "did not succeed",
           count("failed") + " failed, " + count("refused") + " refused before they ran");
  const double with_slo = number(activity, "in_time") + number(activity, "late");
  if (with_slo > 0) {
    char share[32];
    std::snprintf(share, sizeof share, " (%.1f %%)", 100 * number(activity, "in_time") / with_slo);
    add_line(text, "within its SLO",
             count("in_time") + " of " + Json(static_cast<uint64_t>(with_slo)).dump() + share);
  }
  if (number(activity, "p50_ms") > 0) {
    add_line(text, "latency",
             "p50 " + milliseconds_cell(activity, "p50_ms") + ", p95 " +
                 milliseconds_cell(activity, "p95_ms") + ", p99 " +
                 milliseconds_cell(activity, "p99_ms"));
  }
  if (number(activity, "ahead_ms") > 0) {
    add_line(text, "ahead of the others",
             milliseconds_cell(activity, "ahead_ms") + " of GPU time, by their weights");
  }
  return text;
}

// Of a cluster, what each node has of it.
std::string nodes_text(const Json& by_node) {
  std::string text;
  for (const auto& [node, activity] : by_node.items()) {
    if (!activity.is_object()) continue;
    const double calls =
        number(activity, "cold") + number(activity, "gpu_cold") + number(activity, "warm");
    add_line(text, "on node " + node,
             cell(activity, "queued") + " queued, " + cell(activity, "running") + " running, " +
                 cell(activity, "sandboxes") + " sandboxes, " +
                 Json(static_cast<uint64_t>(calls)).dump() + " ended");
  }
  return text;
}

std::string settings_text(const Json& function) {
  std::string text;
  for (const auto& [key, value] : function.items()) {
    if (is_one_of(key, kToldElsewhere) || is_empty(value) || is_of_another_kind(key, function))
      continue;
    const auto [name, what] = shown(key, function);
    add_line(text, name, what);
  }
  return text;
}

std::string graph_text(const Json& graph) {
  const Json nodes = list_in(graph, "nodes");
  std::string text;
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::string after;
    for (const Json& edge : list_in(graph, "edges")) {
      if (edge.size() != 2 || edge[1] != i || edge[0].get<size_t>() >= nodes.size()) continue;
      after += (after.empty() ? " after " : ", ") + cell(nodes[edge[0].get<size_t>()], "name");
    }
    add_line(text, cell(nodes[i], "name"), "calls " + cell(nodes[i], "function") + after);
  }
  return text;
}

}  // namespace

int run_describe(Transport& transport, Console& console, const std::string& function) {
  const std::string name = http::percent_encode(function);
  const auto about = ask_json(transport, "GET", "/v1/activity/functions/" + name);
  if (!about.ok()) return fail(console, about.error());
  const auto ended =
      ask_json(transport, "GET",
               std::string("/v1/activity/invocations?limit=") + kLastOnes + "&function=" + name);
  if (!ended.ok()) return fail(console, ended.error());
  if (console.json) {
    Json all = *about;
    all["last_invocations"] = list_in(*ended, "invocations");
    console.out << all.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
    return 0;
  }
  const Json activity = about->contains("activity") ? (*about)["activity"] : Json();
  console.err << silent_nodes_text(*about, "figures");
  const Json settings = about->contains("function") ? (*about)["function"] : Json();
  console.out << function << " (" << kind_cell(settings.contains("kind") ? settings : activity)
              << ")\n"
              << activity_text(activity)
              << nodes_text(about->contains("by_node") ? (*about)["by_node"] : Json())
              << "\nSettings\n"
              << settings_text(settings);
  if (about->contains("graph") && (*about)["graph"].is_object()) {
    console.out << "\nIts graph\n" << graph_text((*about)["graph"]);
  }
  if (!list_in(*ended, "invocations").empty()) {
    const SystemClock clock;
    console.out << "\nThe last that ended\n" << table_of_ended(*ended, clock.wall_now());
  }
  return 0;
}

}  // namespace lambent::cli
