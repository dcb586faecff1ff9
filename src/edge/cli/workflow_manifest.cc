#include "edge/cli/workflow_manifest.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

Error wrong(const std::string& file, const toml::node& node, const std::string& what) {
  return {ErrorCode::kInvalidArgument,
          file + " line " + std::to_string(node.source().begin.line) + ": " + what};
}

Result<Json> json_of(const toml::node& node, const std::string& file) {
  if (const auto* table = node.as_table()) {
    Json object = Json::object();
    for (const auto& [key, value] : *table) {
      ASSIGN_OR_RETURN(object[std::string(key.str())], json_of(value, file));
    }
    return object;
  }
  if (const auto* array = node.as_array()) {
    Json list = Json::array();
    for (const toml::node& each : *array) {
      ASSIGN_OR_RETURN(Json value, json_of(each, file));
      list.push_back(std::move(value));
    }
    return list;
  }
  if (const auto text = node.value_exact<std::string>()) return Json(*text);
  if (const auto choice = node.value_exact<bool>()) return Json(*choice);
  if (const auto whole = node.value_exact<int64_t>()) return Json(*whole);
  if (const auto number = node.value_exact<double>(); number && std::isfinite(*number)) {
    return Json(*number);
  }
  return wrong(file, node, "dates, times, inf and nan have no form in a workflow; use text");
}

}  // namespace

Result<WorkflowTables> read_workflow_tables(const toml::table& root, const std::string& file) {
  WorkflowTables tables;
  const toml::node* list = root.get("component");
  if (list == nullptr) return tables;
  if (!list->is_array_of_tables()) {
    return wrong(file, *list, "components are written as tables, [[component]]");
  }
  Json components = Json::array();
  for (const toml::node& each : *list->as_array()) {
    ASSIGN_OR_RETURN(Json component, json_of(each, file));
    if (const auto package = component.find("package"); package != component.end()) {
      if (!package->is_string()) return wrong(file, each, "package must be a folder, in quotes");
      tables.packages[components.size()] = package->get<std::string>();
      component.erase("package");
    }
    components.push_back(std::move(component));
  }
  Json graph = {{"components", std::move(components)}};
  if (const toml::node* output = root.get("output")) {
    ASSIGN_OR_RETURN(graph["output"], json_of(*output, file));
  }
  tables.json = graph.dump(1, ' ', false, Json::error_handler_t::replace);
  return tables;
}

}  // namespace lambent::cli
