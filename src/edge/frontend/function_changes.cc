#include "edge/frontend/function_changes.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "core/domain/function_record.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

// Not what is the worker's to give, nor the tags that stand for settings.
bool is_shown(const std::string& field) {
  static const std::set<std::string> hidden = {"id",       "tenant",  "name",
                                               "revision", "runtime", "last_modified_ns"};
  return !hidden.contains(field) && !field.starts_with("tag.lambent:");
}

json flat_record(const FunctionSpec& spec) {
  const json record = json::parse(to_record(spec));
  json flat = json::object();
  for (const auto& [field, value] : record.items()) {
    if (!value.is_object()) {
      flat[field] = value;
      continue;
    }
    for (const auto& [key, text] : value.items()) flat[field + "." + key] = text;
  }
  return flat;
}

}  // namespace

json changes_of(const FunctionSpec& before, const FunctionSpec& after) {
  const json from = flat_record(before);
  const json to = flat_record(after);
  std::set<std::string> fields;
  for (const auto& [field, value] : from.items()) fields.insert(field);
  for (const auto& [field, value] : to.items()) fields.insert(field);
  json changes = json::array();
  for (const std::string& field : fields) {
    const json old = from.value(field, json());
    const json now = to.value(field, json());
    if (!is_shown(field) || old == now) continue;
    const bool is_variable = field.starts_with("environment.");
    const auto shown = [is_variable](const json& value) -> json {
      return is_variable && !value.is_null() ? json("***") : value;
    };
    changes.push_back({{"field", field}, {"from", shown(old)}, {"to", shown(now)}});
  }
  return changes;
}

}  // namespace lambent::frontend
