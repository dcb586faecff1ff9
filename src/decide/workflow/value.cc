#include "decide/workflow/value.h"

#include "core/base/json_survey.h"
#include "core/base/json_text.h"
#include "decide/workflow/limits.h"

namespace lambent::workflow {

Result<Value> parse_value(std::string_view text) {
  if (text.empty()) return Value();
  // Before it is built: what walks over a value does so by recursion.
  if (!json_nests_at_most(text, limits::kValueDepth)) {
    return Error{ErrorCode::kInvalidArgument,
                 "JSON is nested more than " + std::to_string(limits::kValueDepth) + " deep"};
  }
  Value value = Value::parse(text, nullptr, false);
  if (value.is_discarded()) return Error{ErrorCode::kInvalidArgument, "this is no JSON"};
  return value;
}

std::string to_text(const Value& value) { return json_text(value); }

bool is_true(const Value& value) {
  switch (value.type()) {
    case Value::value_t::null:
      return false;
    case Value::value_t::boolean:
      return value.get<bool>();
    case Value::value_t::number_integer:
    case Value::value_t::number_unsigned:
    case Value::value_t::number_float:
      return value.get<double>() != 0;
    case Value::value_t::string:
      return !value.get_ref<const std::string&>().empty();
    default:
      return !value.empty();
  }
}

Bytes weight_of(const Value& value) {
  if (value.is_string()) return Bytes(value.get_ref<const std::string&>().size() + 2);
  if (value.is_number()) return Bytes(value.is_number_float() ? 12 : 4);
  Bytes weight(4);
  if (value.is_object()) {
    for (const auto& [key, each] : value.items()) {
      weight += Bytes(key.size() + 4) + weight_of(each);
    }
  } else if (value.is_array()) {
    for (const Value& each : value) weight += Bytes(1) + weight_of(each);
  }
  return weight;
}

Bytes memory_of(const Value& value) {
  // Of a string with what the allocator adds; short ones lie within it.
  const auto of_string = [](const std::string& text) {
    return Bytes(32 + (text.size() > 15 ? text.size() + 17 : 0));
  };
  Bytes memory(sizeof(Value));
  if (value.is_string()) {
    memory += of_string(value.get_ref<const std::string&>());
  } else if (value.is_array()) {
    memory += Bytes(48);
    for (const Value& each : value) memory += memory_of(each);
  } else if (value.is_object()) {
    memory += Bytes(64);
    for (const auto& [key, each] : value.items()) {
      memory += Bytes(48) + of_string(key) + memory_of(each);
    }
  }
  return memory;
}

std::string_view kind_of(const Value& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) return "text";
  if (value.is_number()) return "a number";
  if (value.is_boolean()) return "true or false";
  return "null";
}

}  // namespace lambent::workflow
