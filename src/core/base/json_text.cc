#include "core/base/json_text.h"

#include <nlohmann/json.hpp>

namespace lambent {
namespace {

template <typename Value>
std::string on_one_line(const Value& value) {
  return value.dump(-1, ' ', false, Value::error_handler_t::replace);
}

}  // namespace

std::string json_text(const nlohmann::json& value) { return on_one_line(value); }
std::string json_text(const nlohmann::ordered_json& value) { return on_one_line(value); }

}  // namespace lambent
