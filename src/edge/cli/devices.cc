#include "edge/cli/devices.h"

#include <nlohmann/json.hpp>

#include "core/base/time.h"
#include "core/base/units.h"
#include "core/http/message.h"
#include "edge/cli/api_error.h"
#include "edge/cli/json_cells.h"
#include "edge/cli/text_table.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration kTimeout = seconds(30);

// "1 of 2", or "-" of a device that dispatch does not have.
std::string tokens_of(const Json& row) {
  if (!row.contains("tokens")) return "-";
  return cell(row, "tokens_held") + " of " + cell(row, "tokens");
}

std::string utilization_of(const Json& row) {
  if (!row.contains("utilization") || !row["utilization"].is_number()) return "-";
  return std::to_string(static_cast<int>(number(row, "utilization") * 100 + 0.5)) + "%";
}

std::string memory_of(const Json& row) {
  const auto bytes = [&](const char* key) {
    return to_string(Bytes(static_cast<uint64_t>(number(row, key))));
  };
  return bytes("memory_used_bytes") + " of " + bytes("memory_total_bytes");
}

// How long it has been so, and why.
std::string state_of(const Json& row) {
  const std::string state = cell(row, "state");
  if (state == "healthy") return state;
  return state + " for " + human_seconds(number(row, "for_seconds"));
}

std::string reason_of(const Json& row) {
  const std::string reason = cell(row, "reason");
  const std::string notice = cell(row, "notice");
  if (notice == "-") return reason;
  return reason == "-" ? notice : reason + "; " + notice;
}

int show(Console& console, const Result<http::Response>& response) {
  if (!response.ok()) return fail(console, response.error());
  const Json json = Json::parse(response->body, nullptr, false);
  if (!json.is_object() || !json.contains("devices") || !json["devices"].is_array()) {
    return fail(console, {ErrorCode::kInternal,
                          "the worker's answer is no list of devices; is that a Lambent worker?"});
  }
  if (console.json) {
    console.out << json.dump(2) << "\n";
    return 0;
  }
  console.err << silent_nodes_text(json, "GPUs");
  const bool has_nodes = names_nodes(json["devices"]);
  TextTable table(
      {has_nodes ? "NODE GPU" : "GPU", "NAME", "STATE", ">RUNNING", ">BUSY", ">MEMORY", "REASON"});
  for (const Json& row : json["devices"]) {
    if (!row.is_object()) continue;
    table.add({(has_nodes ? cell(row, "node") + " " : "") + cell(row, "gpu"), cell(row, "name"),
               state_of(row), tokens_of(row), utilization_of(row), memory_of(row), reason_of(row)});
  }
  console.out << table.str();
  return 0;
}

}  // namespace

int run_devices(Transport& transport, Console& console) {
  return show(console, good(transport.send({.method = "GET", .target = "/v1/devices"}, kTimeout)));
}

int run_drain(Transport& transport, Console& console, const DrainOptions& options) {
  std::string target =
      "/v1/devices/" + http::percent_encode(options.gpu) + (options.drain ? "/drain" : "/undrain");
  if (!options.reason.empty()) target += "?reason=" + http::percent_encode(options.reason);
  return show(console, good(transport.send({.method = "POST", .target = target}, kTimeout)));
}

}  // namespace lambent::cli
