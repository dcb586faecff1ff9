#include "edge/cli/json_cells.h"

#include <algorithm>

#include "core/base/json_text.h"
#include "core/base/units.h"
#include "core/domain/function.h"
#include "core/domain/model_function.h"
#include "edge/cli/console.h"

namespace lambent::cli {

using Json = nlohmann::ordered_json;

std::string cell(const Json& row, const char* key) {
  if (!row.is_object() || !row.contains(key) || row[key].is_null()) return "-";
  const Json& value = row[key];
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

double number(const Json& row, const char* key) {
  if (!row.is_object() || !row.contains(key) || !row[key].is_number()) return 0;
  return row[key].get<double>();
}

Json list_in(const Json& json, const char* key) {
  if (!json.is_object() || !json.contains(key) || !json[key].is_array()) return Json::array();
  return json[key];
}

std::string kind_cell(const nlohmann::ordered_json& function) {
  const std::string kind = cell(function, "kind");
  const bool is_model =
      kind == name_of(FunctionKind::kHttp) && cell(function, "handler").starts_with(kModelServer);
  return is_model ? "model" : kind;
}

bool names_nodes(const Json& rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [](const Json& row) { return row.is_object() && row.contains("node"); });
}

std::string silent_nodes_text(const Json& answer, const std::string& what) {
  std::string text;
  for (const Json& node : list_in(answer, "silent_nodes")) {
    if (!node.is_string()) continue;
    text += "node " + node.get<std::string>() + " does not answer: its " + what + " are missing\n";
  }
  return text;
}

std::string gpus_cell(const Json& row) {
  std::string text;
  for (const Json& gpu : list_in(row, "gpus")) {
    if (gpu.is_string()) text += (text.empty() ? "" : ",") + gpu.get<std::string>();
  }
  return text.empty() ? cell(row, "gpu") : text;
}

std::string bytes_cell(const Json& row, const char* key) {
  const double bytes = number(row, key);
  return bytes > 0 ? to_string(Bytes(static_cast<uint64_t>(bytes))) : "-";
}

std::string milliseconds_cell(const Json& row, const char* key) {
  if (!row.is_object() || !row.contains(key) || !row[key].is_number()) return "-";
  return human_seconds(row[key].get<double>() / 1e3);
}

}  // namespace lambent::cli
