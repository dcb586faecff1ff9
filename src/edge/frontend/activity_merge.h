// What functions do and did on all nodes of a cluster, as one: figures are added, lists are merged.
// Pure; any thread. What nodes send is fuzzed.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/domain/activity.h"
#include "edge/frontend/node_answers.h"
#include "edge/frontend/node_cursor.h"

namespace lambent::frontend {

// A function's activity with what its percentiles are made of.
struct FunctionFigures {
  FunctionActivity activity;
  LatencyHistogram latencies;

  bool operator==(const FunctionFigures&) const = default;
};

// In order of name. `next` empty: there are no more after these.
struct FiguresPage {
  std::vector<FunctionFigures> rows;
  std::string next;
};

// As GET /v1/activity/functions?latencies=1 has a row. A figure that is missing counts as none.
FunctionFigures read_figures(const nlohmann::json& row);
void add_figures(const FunctionFigures& more, FunctionFigures& to);
// The functions are this node's own; each other page adds to them. It ends where another node's
// ended, since nothing is known of what it has after that.
FiguresPage merge_functions(FiguresPage own, const std::vector<NodeAnswer>& others);

// One function: its activity and its latencies, those of each node under `by_node`, and the figures
// in its settings. `own` is what this node answers for itself.
nlohmann::json merge_function(const NodeAnswer& own, const std::vector<NodeAnswer>& others);

// Rows of GET /v1/functions: what queues, runs, was completed, and the sandboxes.
nlohmann::json merge_function_status(nlohmann::json own, const std::vector<NodeAnswer>& others);

// The newest `limit` of those before the cursor. Each node's stay in its order; between nodes the
// later end comes first. `next` is where the page after it begins, and is missing after the last.
nlohmann::json merge_ended(const std::vector<NodeAnswer>& all, NodeCursor before, size_t limit);
// The rows of a node's answer that are invocations which ended, as long as they are in order, the
// newest first.
nlohmann::json ended_rows(const nlohmann::json& body);
// Whether its node counts from the beginning again: it knows of none with this number.
bool began_again(const nlohmann::json& body, uint64_t last);
// The queued ones first, of each kind those that waited longest; and who has the GPUs.
nlohmann::json merge_live(const std::vector<NodeAnswer>& all, size_t limit);
// At most `limit` rows of GET /v1/sandboxes, and how many there are.
nlohmann::json merge_sandboxes(const std::vector<NodeAnswer>& all, size_t limit);
// Rows of GET /v1/schedules, in order of function and name: when each is due as the node has it
// that begins it, which is its `node`, and how the last went as the node has it that began that.
nlohmann::json merge_schedules(const std::vector<NodeAnswer>& all);
// Of one that ended on several nodes, run by run, the last. Null: none has it.
nlohmann::json last_ended(const std::vector<NodeAnswer>& all);

}  // namespace lambent::frontend
