#include "edge/cli/invocation_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "edge/cli/console.h"
#include "edge/cli/json_cells.h"
#include "edge/cli/text_table.h"
#include "edge/cli/wait_words.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string wait_of(const Json& row) {
  if (!row.is_object() || !row.contains("wait_reason")) return "";
  const std::string reason = cell(row, "wait_reason");
  const std::string_view words = wait_in_words(reason);
  if (reason == "none") return "";
  return words.empty() ? reason : std::string(words);
}

// Why it failed, else what it waited for if it waited for long enough to ask.
std::string reason_of(const Json& row) {
  const std::string type = cell(row, "error_type");
  const std::string error = cell(row, "error");
  const std::string known = type == "-" ? "" : type;
  if (!known.empty() || (error != "-" && !error.empty())) {
    return known + (known.empty() || error.empty() || error == "-" ? "" : ": ") +
           (error == "-" ? "" : error);
  }
  const bool waited = row.contains("phases_ms") && number(row["phases_ms"], "queue") >= 1;
  return waited ? wait_of(row) : "";
}

// "run 2 in 34.00 s; ValueError: no such image" of one that waits to be tried again.
std::string retry_of(const Json& row) {
  const std::string failure = cell(row, "last_failure");
  return "run " + cell(row, "run") + " in " + human_seconds(number(row, "due_in_seconds")) +
         (failure.empty() || failure == "-" ? "" : "; " + failure);
}

// Of a run that was not the last one: "run 1, again after 60.00 s: ValueError: no such image".
std::string with_run(const Json& row, const std::string& reason) {
  const bool is_again = row.contains("again_in_seconds") && row["again_in_seconds"].is_number();
  const bool is_later = number(row, "run") > 1;
  if (!is_again && !is_later) return reason;
  std::string text = "run " + cell(row, "run");
  if (is_again) text += ", again after " + human_seconds(number(row, "again_in_seconds"));
  return text + (reason.empty() ? "" : ": " + reason);
}

// One line, whatever a function said.
std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 127; }, ' ');
  constexpr size_t kMost = 100;
  if (text.size() > kMost) text = text.substr(0, kMost - 3) + "...";
  return text;
}

// With the node behind the id, where rows have one.
std::vector<std::string> with_node(bool has_nodes, std::string node,
                                   std::vector<std::string> cells) {
  if (has_nodes) cells.insert(cells.begin() + 1, std::move(node));
  return cells;
}

}  // namespace

std::string table_of_live(const Json& live) {
  const Json rows = list_in(live, "invocations");
  const bool has_nodes = names_nodes(rows);
  TextTable table(
      with_node(has_nodes, "NODE", {"ID", "FUNCTION", "STATE", ">WAITED", "WAITS BECAUSE"}));
  for (const Json& row : rows) {
    const std::string phase = cell(row, "phase");
    std::string why = phase == "queued" ? wait_of(row) : "";
    if (phase == "waiting") why = one_line(retry_of(row));
    table.add(with_node(has_nodes, cell(row, "node"),
                        {cell(row, "invocation"), cell(row, "function"), phase,
                         human_seconds(number(row, "waited_seconds")), std::move(why)}));
  }
  return table.str();
}

std::string table_of_ended(const Json& ended, Duration now) {
  const Json rows = list_in(ended, "invocations");
  const bool has_nodes = names_nodes(rows);
  TextTable table(with_node(
      has_nodes, "NODE",
      {"ID", "FUNCTION", "OUTCOME", ">AGO", "START", "GPU", ">QUEUE", ">RUN", ">TOOK", "REASON"}));
  for (const Json& row : rows) {
    const Json phases = row.contains("phases_ms") ? row["phases_ms"] : Json();
    const double ago = std::max(0.0, to_seconds(now) - number(row, "ended"));
    const bool ran = cell(row, "outcome") != "rejected";
    table.add(
        with_node(has_nodes, cell(row, "node"),
                  {cell(row, "invocation"), cell(row, "function"), cell(row, "outcome"),
                   human_seconds(ago), ran ? cell(row, "start") : "-", gpus_cell(row),
                   milliseconds_cell(phases, "queue"), milliseconds_cell(phases, "run"),
                   milliseconds_cell(row, "took_ms"), one_line(with_run(row, reason_of(row)))}));
  }
  return table.str();
}

}  // namespace lambent::cli
