#include "edge/cli/listing.h"

#include <nlohmann/json.hpp>

#include "core/base/units.h"
#include "core/domain/function.h"
#include "core/http/message.h"
#include "edge/cli/api_json.h"
#include "edge/cli/json_cells.h"
#include "edge/cli/text_table.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

// What runs it: of a handler its runtime, of all others what they are.
std::string runtime_cell(const Json& row) {
  const std::string kind = kind_cell(row);
  const bool is_handler = kind == name_of(FunctionKind::kHandler) || kind == "-";
  return is_handler ? cell(row, "runtime") : kind;
}

// "1 GPU (Tesla V100-SXM2-16GB, emulated, 20 modelled seconds per second)"
std::string devices_text(const Json& worker) {
  const double devices = number(worker, "devices");
  if (devices < 1) return "no GPU";
  const Json count(static_cast<uint64_t>(devices));
  std::string text = count.dump() + (devices > 1 ? " GPUs (" : " GPU (") + cell(worker, "gpu");
  if (cell(worker, "emulated") == "true") {
    text += ", emulated";
    const Json scale(number(worker, "time_scale"));
    if (scale != 1) text += ", " + scale.dump() + " modelled seconds per second";
  }
  return text + ")";
}

// All pages of the functions as one.
Result<Json> all_functions(Transport& transport) {
  Json all;
  std::string after;
  do {
    const std::string target =
        "/v1/functions" + (after.empty() ? "" : "?after=" + http::percent_encode(after));
    ASSIGN_OR_RETURN(Json page, ask_json(transport, "GET", target));
    if (!page.is_object() || !page.contains("functions") || !page["functions"].is_array()) {
      return not_a_worker(target);
    }
    std::string next;
    if (page.contains("next")) {
      // Pages are in order of the names, so that one which does not go on would never end.
      if (page["next"].is_string()) next = page["next"].get<std::string>();
      if (next <= after) return not_a_worker(target);
      page.erase("next");
    }
    after = std::move(next);
    if (all.is_null()) {
      all = std::move(page);
      continue;
    }
    for (Json& each : page["functions"]) all["functions"].push_back(std::move(each));
  } while (!after.empty());
  return all;
}

// "3", or of one that is to have some ready "3 (2 of 2 ready)", and why there are fewer.
std::string sandboxes_cell(const Json& row) {
  std::string text = cell(row, "sandboxes");
  const auto number = [&](const char* key) { return row.value(key, 0.0); };
  const double wanted = number("min_instances");
  if (wanted == 0) return text;
  text += " (" + cell(row, "instances_ready") + " of " + cell(row, "min_instances") + " ready";
  if (number("instances_ready") < wanted && number("instance_failures") > 0) {
    char next[32];
    std::snprintf(next, sizeof next, "%.0f", number("next_instance_start_seconds"));
    text += "; " + cell(row, "instance_failures") + " failed, next in " + next + " s";
  }
  return text + ")";
}

// "64 MiB", or of one that takes several GPUs "2 x 64 MiB".
std::string gpu_memory_cell(const Json& row) {
  const std::string memory = bytes_cell(row, "gpu_memory_bytes");
  const double count = row.value("gpu_count", 1.0);
  return count > 1 ? cell(row, "gpu_count") + " x " + memory : memory;
}

}  // namespace

int run_ls(Transport& transport, Console& console) {
  const auto json = all_functions(transport);
  if (!json.ok()) return fail(console, json.error());
  if (console.json) {
    console.out << json->dump(2) << "\n";
    return 0;
  }
  console.err << silent_nodes_text(*json, "figures");
  TextTable table({"NAME", "RUNTIME", ">GPU MEMORY", ">REVISION", ">QUEUED", ">RUNNING",
                   ">COMPLETED", ">SANDBOXES"});
  for (const Json& row : list_in(*json, "functions")) {
    table.add({cell(row, "name"), runtime_cell(row), gpu_memory_cell(row), cell(row, "revision"),
               cell(row, "queued"), cell(row, "running"), cell(row, "completed"),
               sandboxes_cell(row)});
  }
  console.out << table.str();
  return 0;
}

int run_schedules(Transport& transport, Console& console) {
  const auto json = ask_json(transport, "GET", "/v1/schedules");
  if (!json.ok()) return fail(console, json.error());
  if (console.json) {
    console.out << json->dump(2) << "\n";
    return 0;
  }
  console.err << silent_nodes_text(*json, "schedules");
  const Json rows = list_in(*json, "schedules");
  const bool has_nodes = names_nodes(rows);
  TextTable table({"FUNCTION", "NAME", "WHEN", "ZONE", has_nodes ? "NODE NEXT" : "NEXT", "LAST",
                   "OUTCOME", ">MISSED"});
  for (const Json& row : rows) {
    const std::string cron = cell(row, "cron");
    const std::string next = row.value("enabled", true) ? cell(row, "next") : "disabled";
    table.add({cell(row, "function"), cell(row, "name"),
               cron.empty() ? "every " + cell(row, "rate") : cron, cell(row, "timezone"),
               has_nodes ? cell(row, "node") + " " + next : next, cell(row, "last"),
               cell(row, "last_outcome"), cell(row, "missed")});
  }
  console.out << table.str();
  return 0;
}

int run_ps(Transport& transport, Console& console) {
  const auto json = ask_json(transport, "GET", "/v1/sandboxes");
  if (!json.ok()) return fail(console, json.error());
  if (console.json) {
    console.out << json->dump(2) << "\n";
    return 0;
  }
  console.err << silent_nodes_text(*json, "sandboxes");
  const Json rows = list_in(*json, "sandboxes");
  const bool has_nodes = names_nodes(rows);
  TextTable table({">ID", "FUNCTION", "STATE", ">PID", has_nodes ? "NODE GPU" : "GPU", ">AGE",
                   ">INVOCATIONS", ">GPU MEMORY", "WHERE", ">MEMORY"});
  for (const Json& row : rows) {
    // How many requests are in it, if that is not plain from its state.
    const bool has_several = number(row, "in_flight") > 1;
    const std::string state =
        cell(row, "state") + (has_several ? " " + cell(row, "in_flight") : "");
    table.add({cell(row, "id"), cell(row, "function"), state, cell(row, "pid"),
               (has_nodes ? cell(row, "node") + " " : "") + gpus_cell(row),
               human_seconds(number(row, "age_seconds")), cell(row, "invocations"),
               bytes_cell(row, "device_memory_bytes"), cell(row, "device_memory_place"),
               bytes_cell(row, "host_memory_bytes")});
  }
  console.out << table.str();
  return 0;
}

int run_version(Transport& transport, Console& console, const std::string& own_version) {
  const auto worker = ask_json(transport, "GET", "/v1/version");
  if (console.json) {
    Json json = {{"client", own_version}};
    json["worker"] = worker.ok() ? *worker : Json();
    console.out << json.dump(2) << "\n";
    return 0;
  }
  console.out << "lambent " << own_version << "\n";
  if (worker.ok()) {
    console.out << "worker  " << cell(*worker, "version") << "   policy " << cell(*worker, "policy")
                << ", " << devices_text(*worker) << "\n";
  } else {
    console.out << "worker  none answers\n";
  }
  return 0;
}

}  // namespace lambent::cli
