#include "edge/cli/cluster.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/units.h"
#include "core/http/message.h"
#include "edge/cli/api_error.h"
#include "edge/cli/json_cells.h"
#include "edge/cli/text_table.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration kTimeout = seconds(30);
constexpr Duration kLookPeriod = milliseconds(200);

// A node leaves what it does not know empty.
std::string filled_cell(const Json& row, const char* key) {
  const std::string text = cell(row, key);
  return text.empty() ? "-" : text;
}

bool is_set(const Json& row, const char* key) {
  return row.contains(key) && row[key].is_boolean() && row[key].get<bool>();
}

// What stands out: "asked" is the node that answers here.
std::string notes_of(const Json& row) {
  std::string notes;
  if (is_set(row, "home")) notes = "home";
  if (is_set(row, "self")) notes += notes.empty() ? "asked" : ", asked";
  const std::string problem = filled_cell(row, "problem");
  if (problem != "-") notes += (notes.empty() ? "" : ", ") + problem;
  return notes.empty() ? "-" : notes;
}

Result<Json> read(const Result<http::Response>& response) {
  if (!response.ok()) return response.error();
  Json json = Json::parse(response->body, nullptr, false);
  if (json.is_object() && json.contains("members") && json["members"].is_array()) return json;
  return Error{ErrorCode::kInternal,
               "the worker's answer is no list of nodes; is that a Lambent worker?"};
}

int show(Console& console, const Result<Json>& cluster) {
  if (!cluster.ok()) return fail(console, cluster.error());
  if (console.json) {
    console.out << cluster->dump(2) << "\n";
    return 0;
  }
  TextTable table({"NODE", "STATE", ">LOAD", ">SLOTS", ">WARM", ">GPUS", "VERSION", "ADDRESS", ""});
  for (const Json& row : (*cluster)["members"]) {
    if (!row.is_object()) continue;
    const size_t gpus = row.contains("gpus") ? row["gpus"].size() : 0;
    table.add({filled_cell(row, "node"), filled_cell(row, "state"), filled_cell(row, "load"),
               filled_cell(row, "slots"), filled_cell(row, "warm_functions"), std::to_string(gpus),
               filled_cell(row, "version"), filled_cell(row, "address"), notes_of(row)});
  }
  console.out << table.str();
  return 0;
}

// What a node still has to do; nothing: it is no member any more.
std::optional<uint64_t> load_of(const Json& cluster, const std::string& node) {
  for (const Json& row : cluster["members"]) {
    if (!row.is_object() || filled_cell(row, "node") != node) continue;
    const bool is_there = row.contains("load") && row["load"].is_number_unsigned() &&
                          filled_cell(row, "state") != "lost";
    return is_there ? row["load"].get<uint64_t>() : 0;
  }
  return std::nullopt;
}

}  // namespace

int run_cluster_ls(Transport& transport, Console& console) {
  return show(console,
              read(good(transport.send({.method = "GET", .target = "/v1/cluster"}, kTimeout))));
}

int run_cluster_drain(Transport& transport, Console& console, const ClusterDrainOptions& options) {
  const std::string target = "/v1/cluster/nodes/" + http::percent_encode(options.node) +
                             (options.drain ? "/drain" : "/undrain");
  auto cluster = read(good(transport.send({.method = "POST", .target = target}, kTimeout)));
  // What others say of it is a second old, and they send it something for as long.
  unsigned idle_looks = 0;
  for (Duration waited{}; cluster.ok() && options.drain && options.wait > Duration::zero();
       waited += kLookPeriod) {
    idle_looks = load_of(*cluster, options.node).value_or(0) == 0 ? idle_looks + 1 : 0;
    if (idle_looks * kLookPeriod > seconds(2)) break;
    if (waited >= options.wait) {
      return fail(console, {ErrorCode::kDeadlineExceeded,
                            "node '" + options.node + "' still has work after " +
                                human_seconds(to_seconds(options.wait)) + "; it gets no more"});
    }
    options.sleep(kLookPeriod);
    cluster = read(good(transport.send({.method = "GET", .target = "/v1/cluster"}, kTimeout)));
  }
  return show(console, cluster);
}

}  // namespace lambent::cli
