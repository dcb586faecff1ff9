#include "edge/frontend/activity_merge.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "edge/frontend/activity_json.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

// More than a latency or a wait has: what another node says is no number of this kind.
constexpr double kMostMilliseconds = 1e12;

double number_in(const json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? found->get<double>() : 0;
}

uint64_t count_in(const json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

std::string text_in(const json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Duration milliseconds_of(double number) {
  const bool is_one = std::isfinite(number) && number > 0 && number < kMostMilliseconds;
  return is_one ? from_seconds(number / 1000) : Duration::zero();
}

LatencyHistogram read_latencies(const json& buckets) {
  LatencyHistogram latencies;
  for (const json& each : buckets) {
    const bool is_pair =
        each.is_array() && each.size() == 2 && each[0].is_number() && each[1].is_number_unsigned();
    if (!is_pair) continue;
    const auto count = std::min<uint64_t>(each[1].get<uint64_t>(), UINT32_MAX);
    latencies.add(milliseconds_of(each[0].get<double>()), static_cast<uint32_t>(count));
  }
  return latencies;
}

// A row that has its place in the list of its node.
bool is_ended(const json& row) {
  return row.is_object() && count_in(row, "sequence") > 0 && row.contains("ended") &&
         row["ended"].is_number();
}

// What one node has of those that ended, and how far it was taken.
struct Source {
  const std::string* node;
  const json* rows;
  size_t next = 0;
  double at = INFINITY;  // of the next row, or of one before if that was earlier

  bool is_done() const { return next == rows->size(); }
  void look_at_next() {
    while (!is_done() && !is_ended((*rows)[next])) ++next;
    if (!is_done()) at = std::min(at, (*rows)[next]["ended"].get<double>());
  }
};

void add_counts(const json& more, json& to, std::initializer_list<const char*> keys) {
  for (const char* key : keys) to[key] = count_in(to, key) + count_in(more, key);
}

void add_status(const json& more, json& to) {
  add_counts(more, to, {"queued", "running", "completed", "sandboxes"});
}

bool begins(const json& schedule) {
  return schedule.contains("begins") && schedule["begins"] == true;
}

void add_schedule(const json& row, const std::string& node, json& to) {
  if (to.is_null()) {
    to = row;
    to["node"] = begins(row) ? json(node) : json();
    return;
  }
  const bool begins_here = begins(row) && !begins(to);
  json merged = begins_here ? row : to;
  if (begins_here) merged["node"] = node;
  const auto last_of = [](const json& each) {
    return std::pair(text_in(each, "last"), text_in(each, "last_invocation"));
  };
  const json& newest = last_of(row) > last_of(to) ? row : to;
  for (const char* key : {"last", "last_invocation", "last_outcome", "error"}) {
    if (newest.contains(key)) merged[key] = newest[key];
  }
  for (const char* key : {"begun", "missed"}) merged[key] = count_in(row, key) + count_in(to, key);
  to = std::move(merged);
}

}  // namespace

FunctionFigures read_figures(const json& row) {
  FunctionFigures figures;
  if (!row.is_object()) return figures;
  FunctionActivity& activity = figures.activity;
  activity.name = text_in(row, "name");
  activity.kind = function_kind_from(text_in(row, "kind")).value_or(FunctionKind::kHandler);
  activity.serves_model = row.contains("serves_model") && row["serves_model"] == true;
  for (const auto& [key, count] :
       std::initializer_list<std::pair<const char*, uint64_t*>>{{"queued", &activity.queued},
                                                                {"running", &activity.running},
                                                                {"sandboxes", &activity.sandboxes},
                                                                {"cold", &activity.cold},
                                                                {"gpu_cold", &activity.gpu_cold},
                                                                {"warm", &activity.warm},
                                                                {"failed", &activity.failed},
                                                                {"refused", &activity.refused},
                                                                {"in_time", &activity.in_time},
                                                                {"late", &activity.late}}) {
    *count = count_in(row, key);
  }
  for (const auto& [key, duration] :
       std::initializer_list<std::pair<const char*, Duration*>>{{"p50_ms", &activity.p50},
                                                                {"p95_ms", &activity.p95},
                                                                {"p99_ms", &activity.p99},
                                                                {"ahead_ms", &activity.ahead}}) {
    *duration = milliseconds_of(number_in(row, key));
  }
  figures.latencies = read_latencies(list_under(row, "latency_buckets_ms"));
  return figures;
}

void add_figures(const FunctionFigures& more, FunctionFigures& to) {
  const FunctionActivity& theirs = more.activity;
  FunctionActivity& all = to.activity;
  all.queued += theirs.queued;
  all.running += theirs.running;
  all.sandboxes += theirs.sandboxes;
  all.cold += theirs.cold;
  all.gpu_cold += theirs.gpu_cold;
  all.warm += theirs.warm;
  all.failed += theirs.failed;
  all.refused += theirs.refused;
  all.in_time += theirs.in_time;
  all.late += theirs.late;
  all.ahead = std::max(all.ahead, theirs.ahead);
  to.latencies.add(more.latencies);
  if (more.latencies.count() > 0) {
    all.p50 = to.latencies.percentile(0.5);
    all.p95 = to.latencies.percentile(0.95);
    all.p99 = to.latencies.percentile(0.99);
  }
}

FiguresPage merge_functions(FiguresPage own, const std::vector<NodeAnswer>& others) {
  std::map<std::string, FunctionFigures*> by_name;
  for (FunctionFigures& each : own.rows) by_name[each.activity.name] = &each;
  std::string cut;  // the first name at which another node's page ends
  for (const NodeAnswer& other : others) {
    for (const json& row : list_under(other.body, "functions")) {
      const FunctionFigures more = read_figures(row);
      const auto found = by_name.find(more.activity.name);
      if (found != by_name.end()) add_figures(more, *found->second);
    }
    const std::string next = other.body.is_object() ? text_in(other.body, "next") : std::string();
    if (!next.empty() && (cut.empty() || next < cut)) cut = next;
  }
  const bool goes_further =
      !cut.empty() && !own.rows.empty() && own.rows.back().activity.name > cut;
  if (!goes_further) return own;
  std::erase_if(own.rows, [&](const FunctionFigures& each) { return each.activity.name > cut; });
  own.next = cut;
  return own;
}

json merge_function(const NodeAnswer& own, const std::vector<NodeAnswer>& others) {
  json merged = own.body;
  const auto figures_in = [](const json& body) {
    json row = body["activity"];
    row["latency_buckets_ms"] = list_under(body, "latency_buckets_ms");
    return read_figures(row);
  };
  FunctionFigures all = figures_in(own.body);
  json by_node = {{own.node, own.body["activity"]}};
  for (const NodeAnswer& other : others) {
    const bool has_it = other.body.is_object() && other.body.contains("activity") &&
                        other.body["activity"].is_object();
    if (!has_it) continue;
    add_figures(figures_in(other.body), all);
    by_node[other.node] = other.body["activity"];
    if (other.body.contains("function") && other.body["function"].is_object()) {
      add_status(other.body["function"], merged["function"]);
    }
  }
  merged["activity"] = to_json(all.activity);
  merged["latency_buckets_ms"] = to_json(all.latencies);
  merged["by_node"] = std::move(by_node);
  return merged;
}

json merge_function_status(json own, const std::vector<NodeAnswer>& others) {
  std::map<std::string, json*> by_name;
  std::string last;
  for (json& row : own["functions"]) by_name[last = text_in(row, "name")] = &row;
  std::string cut;
  for (const NodeAnswer& other : others) {
    for (const json& row : list_under(other.body, "functions")) {
      if (!row.is_object()) continue;
      const auto found = by_name.find(text_in(row, "name"));
      if (found != by_name.end()) add_status(row, *found->second);
    }
    const std::string next = other.body.is_object() ? text_in(other.body, "next") : std::string();
    if (!next.empty() && (cut.empty() || next < cut)) cut = next;
  }
  if (cut.empty() || last <= cut) return own;
  json kept = json::array();
  for (json& row : own["functions"]) {
    if (text_in(row, "name") <= cut) kept.push_back(std::move(row));
  }
  own["functions"] = std::move(kept);
  own["next"] = cut;
  return own;
}

json merge_ended(const std::vector<NodeAnswer>& all, NodeCursor before, size_t limit) {
  std::vector<Source> sources;
  bool has_more = false;
  for (const NodeAnswer& each : all) {
    Source& source = sources.emplace_back(&each.node, &list_under(each.body, "invocations"));
    // What gave as many as it was asked for has more, perhaps.
    has_more = has_more || source.rows->size() >= limit;
    source.look_at_next();
  }
  json rows = json::array();
  while (rows.size() < limit) {
    Source* first = nullptr;
    for (Source& source : sources) {
      if (!source.is_done() && (first == nullptr || source.at > first->at)) first = &source;
    }
    if (first == nullptr) break;
    const json& row = (*first->rows)[first->next++];
    before.set(*first->node, count_in(row, "sequence"));
    rows.push_back(row);
    rows.back()["node"] = *first->node;
    first->look_at_next();
  }
  for (const Source& source : sources) has_more = has_more || !source.is_done();
  json merged = {{"invocations", std::move(rows)}};
  if (has_more) merged["next"] = before.text();
  return merged;
}

json ended_rows(const json& body) {
  json rows = json::array();
  uint64_t last = UINT64_MAX;
  for (const json& row : list_under(body, "invocations")) {
    if (!is_ended(row) || count_in(row, "sequence") >= last) break;
    last = count_in(row, "sequence");
    rows.push_back(row);
  }
  return rows;
}

bool began_again(const json& body, uint64_t last) {
  return body.is_object() && body.contains("newest") && count_in(body, "newest") < last;
}

json merge_live(const std::vector<NodeAnswer>& all, size_t limit) {
  std::vector<json> rows = rows_of_all(all, "invocations", SIZE_MAX);
  // As each node sorts its own.
  const auto place = [](const json& row) {
    return std::pair(text_in(row, "phase") != "queued", -number_in(row, "waited_seconds"));
  };
  std::ranges::stable_sort(rows, {}, place);
  if (rows.size() > limit) rows.resize(limit);
  return {{"invocations", std::move(rows)}, {"gpu_runs", rows_of_all(all, "gpu_runs", SIZE_MAX)}};
}

json merge_sandboxes(const std::vector<NodeAnswer>& all, size_t limit) {
  uint64_t count = 0;
  for (const NodeAnswer& each : all) {
    const size_t rows = list_under(each.body, "sandboxes").size();
    count += each.body.is_object() && each.body.contains("all") ? count_in(each.body, "all") : rows;
  }
  return {{"sandboxes", rows_of_all(all, "sandboxes", limit)}, {"all", count}};
}

json merge_schedules(const std::vector<NodeAnswer>& all) {
  std::map<std::pair<std::string, std::string>, json> by_name;
  for (const NodeAnswer& each : all) {
    for (const json& row : list_under(each.body, "schedules")) {
      if (!row.is_object()) continue;
      add_schedule(row, each.node, by_name[{text_in(row, "function"), text_in(row, "name")}]);
    }
  }
  json rows = json::array();
  for (auto& [name, row] : by_name) rows.push_back(std::move(row));
  return {{"schedules", std::move(rows)}};
}

json last_ended(const std::vector<NodeAnswer>& all) {
  json last;
  for (const NodeAnswer& each : all) {
    if (!is_ended(each.body)) continue;
    if (last.is_object() && number_in(last, "ended") >= number_in(each.body, "ended")) continue;
    last = each.body;
    last["node"] = each.node;
  }
  return last;
}

}  // namespace lambent::frontend
