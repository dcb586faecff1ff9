#include "edge/cli/top.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/json_text.h"
#include "core/base/units.h"
#include "edge/cli/api_json.h"
#include "edge/cli/invocation_rows.h"
#include "edge/cli/json_cells.h"
#include "edge/cli/text_table.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kBar = 20;            // characters
constexpr size_t kMostFunctions = 20;  // those that do something come first
constexpr const char* kMostLive = "10";

// "[#####...............]  25%"
std::string bar_of(double share) {
  share = std::clamp(share, 0.0, 1.0);
  const auto full = static_cast<size_t>(std::lround(share * kBar));
  return "[" + std::string(full, '#') + std::string(kBar - full, '.') + "] " +
         Json(std::lround(share * 100)).dump() + "%";
}

std::string gpus_text(const Json& devices, const Json& live) {
  const bool has_nodes = names_nodes(list_in(devices, "devices"));
  TextTable table({has_nodes ? "NODE GPU" : "GPU", "STATE", "SLOTS", "MEMORY", ">OF", "RUNS"});
  const auto place_of = [has_nodes](const Json& row) {
    return (has_nodes ? cell(row, "node") + " " : "") + cell(row, "gpu");
  };
  for (const Json& row : list_in(devices, "devices")) {
    std::string runs;
    for (const Json& run : list_in(live, "gpu_runs")) {
      if (place_of(run) != place_of(row)) continue;
      const std::string function = cell(run, "function");
      runs += (runs.empty() ? "" : ", ") +
              (function == "-" ? std::string("another tenant's") : function) + " " +
              human_seconds(number(run, "held_seconds"));
    }
    const double total = number(row, "memory_total_bytes");
    const std::string slots =
        row.contains("tokens") ? cell(row, "tokens_held") + " of " + cell(row, "tokens") : "-";
    table.add({place_of(row), cell(row, "state"), slots,
               bar_of(total > 0 ? number(row, "memory_used_bytes") / total : 0),
               bytes_cell(row, "memory_total_bytes"), runs});
  }
  return table.str();
}

double at_work(const Json& row) { return number(row, "queued") + number(row, "running"); }

std::string functions_text(const Json& functions) {
  std::vector<Json> rows;
  for (const Json& row : list_in(functions, "functions")) rows.push_back(row);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Json& a, const Json& b) { return at_work(a) > at_work(b); });
  const size_t all = rows.size();
  rows.resize(std::min(all, kMostFunctions));
  // A terminal of 80 columns ends within the table: the first columns are those that tell most.
  TextTable table({"FUNCTION", ">QUEUED", ">RUNNING", ">P50", ">P99", ">COLD", ">GPU-COLD", ">WARM",
                   ">FAILED", ">SANDBOXES", ">AHEAD"});
  for (const Json& row : rows) {
    const bool ran = number(row, "p50_ms") > 0;
    table.add({cell(row, "name"), cell(row, "queued"), cell(row, "running"),
               ran ? milliseconds_cell(row, "p50_ms") : "-",
               ran ? milliseconds_cell(row, "p99_ms") : "-", cell(row, "cold"),
               cell(row, "gpu_cold"), cell(row, "warm"), cell(row, "failed"),
               cell(row, "sandboxes"),
               number(row, "ahead_ms") > 0 ? milliseconds_cell(row, "ahead_ms") : "-"});
  }
  const std::string more =
      all > rows.size() ? "and " + std::to_string(all - rows.size()) + " more functions\n" : "";
  return table.str() + more;
}

// Those that left one question or more unanswered, in order of their names.
Json silent_nodes_of(std::initializer_list<const Json*> answers) {
  std::set<std::string> names;
  for (const Json* answer : answers) {
    for (const Json& node : list_in(*answer, "silent_nodes")) {
      if (node.is_string()) names.insert(node.get<std::string>());
    }
  }
  return names;
}

// All that is shown at one time.
Result<Json> look(Transport& transport) {
  Json all;
  for (const auto& [name, target] : std::initializer_list<std::pair<const char*, std::string>>{
           {"devices", "/v1/devices"},
           {"functions", "/v1/activity/functions?limit=500"},
           {"live", std::string("/v1/activity/live?limit=") + kMostLive}}) {
    ASSIGN_OR_RETURN(all[name], ask_json(transport, "GET", target));
  }
  return all;
}

void show(Console& console, const TopOptions& options, const Json& all) {
  if (console.json) {
    // A line each time, for programs that go on reading.
    const Json row = {
        {"devices", list_in(all["devices"], "devices")},
        {"functions", list_in(all["functions"], "functions")},
        {"live", list_in(all["live"], "invocations")},
        {"gpu_runs", list_in(all["live"], "gpu_runs")},
        {"silent_nodes", silent_nodes_of({&all["devices"], &all["functions"], &all["live"]})}};
    console.out << json_text(row) << "\n";
  } else {
    const std::string text = top_text(all["devices"], all["functions"], all["live"]);
    const auto [lines, columns] = options.size();
    // To the first place of the screen, and what was there goes; not by line, which flickers.
    if (options.live) console.out << "\033[H\033[J";
    console.out << (options.live ? fitted(text, lines, columns) : text);
  }
  console.out.flush();
}

}  // namespace

std::string top_text(const Json& devices, const Json& functions, const Json& live) {
  double queued = 0;
  double running = 0;
  for (const Json& row : list_in(functions, "functions")) {
    queued += number(row, "queued");
    running += number(row, "running");
  }
  const Json silent = {{"silent_nodes", silent_nodes_of({&devices, &functions, &live})}};
  std::string text = "queued " + Json(static_cast<uint64_t>(queued)).dump() + ", running " +
                     Json(static_cast<uint64_t>(running)).dump() + "\n" +
                     silent_nodes_text(silent, "figures") + "\n";
  if (!list_in(devices, "devices").empty()) text += gpus_text(devices, live) + "\n";
  text += functions_text(functions);
  if (!list_in(live, "invocations").empty()) text += "\n" + table_of_live(live);
  return text;
}

std::string fitted(const std::string& text, size_t lines, size_t columns) {
  std::string made;
  size_t line = 0;
  for (size_t at = 0; at < text.size() && (lines == 0 || line + 1 < lines); ++line) {
    const size_t end = std::min(text.find('\n', at), text.size());
    size_t length = end - at;
    if (columns > 0 && length > columns) {
      length = columns;
      // Not within a character of several bytes.
      while (length > 0 && (static_cast<unsigned char>(text[at + length]) & 0xC0) == 0x80) --length;
    }
    made += text.substr(at, length) + "\n";
    at = end + 1;
  }
  return made;
}

int run_top(Transport& transport, Console& console, const TopOptions& options) {
  for (uint64_t shown = 0;;) {
    const auto all = look(transport);
    if (!all.ok()) return fail(console, all.error());
    show(console, options, *all);
    if (++shown == options.times || !console.out) return 0;
    if (options.pause ? !options.pause(options.every) : false) return 0;
    if (!options.pause) std::this_thread::sleep_for(options.every);
    if (!options.live && !console.json) console.out << "\n";
  }
}

}  // namespace lambent::cli
