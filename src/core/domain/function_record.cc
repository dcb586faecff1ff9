#include "core/domain/function_record.h"

#include <concepts>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/check.h"
#include "core/base/json_text.h"
#include "core/domain/function_fields.h"
#include "core/domain/function_words.h"

namespace lambent {
namespace {

using nlohmann::json;

json json_of(const std::string& text) { return text; }
json json_of(const Variables& variables) { return variables; }
json json_of(const Mounts& mounts) { return text_of(mounts); }
json json_of(const Schedules& schedules) { return text_of(schedules); }
json json_of(const NetworkAccess& access) { return text_of(access); }
json json_of(Bytes amount) { return amount.count; }
json json_of(Duration duration) { return int64_t{duration.count()}; }
template <typename Tag, typename Number>
json json_of(StrongId<Tag, Number> id) {
  return id.value;
}
template <typename Number>
requires std::is_arithmetic_v<Number> json json_of(Number number) { return number; }
template <HasWords Enum>
json json_of(Enum value) {
  return std::string(name_of(value));
}

struct Writer {
  json record = json::object();

  template <typename Value>
  void operator()(const FunctionField& field, const Value& value) {
    record[std::string(field.column)] = json_of(value);
  }
  void operator()(const FunctionField& field, const std::optional<CpuVariant>& variant) {
    (*this)(field, variant.has_value());
    const CpuVariant described = variant.value_or(CpuVariant{});
    visit_cpu_variant(*this, described);
  }
};

// Each takes a value of JSON if it is of the right type.
bool take(const json& value, std::string& to) {
  if (value.is_string()) to = value.get<std::string>();
  return value.is_string();
}
bool take(const json& value, bool& to) {
  if (value.is_boolean()) to = value.get<bool>();
  return value.is_boolean();
}
bool take(const json& value, double& to) {
  if (value.is_number()) to = value.get<double>();
  return value.is_number();
}
template <std::unsigned_integral Number>
bool take(const json& value, Number& to) {
  if (!value.is_number_unsigned() || !std::in_range<Number>(value.get<uint64_t>())) return false;
  to = static_cast<Number>(value.get<uint64_t>());
  return true;
}
bool take(const json& value, Bytes& to) { return take(value, to.count); }
bool take(const json& value, Duration& to) {
  if (!value.is_number_integer()) return false;
  to = Duration(value.get<int64_t>());
  return true;
}
template <typename Tag, typename Number>
bool take(const json& value, StrongId<Tag, Number>& to) {
  return take(value, to.value);
}
template <HasWords Enum>
bool take(const json& value, Enum& to) {
  if (!value.is_string()) return false;
  const auto known = value_named<Enum>(value.get_ref<const std::string&>());
  if (known) to = *known;
  return known.has_value();
}
bool take(const json& value, Variables& to) {
  if (!value.is_object()) return false;
  for (const auto& [key, text] : value.items()) {
    if (!take(text, to[key])) return false;
  }
  return true;
}

bool take(const json& value, Mounts& to) {
  if (!value.is_string()) return false;
  auto mounts = parse_mounts(value.get_ref<const std::string&>());
  if (mounts.ok()) to = *std::move(mounts);
  return mounts.ok();
}

bool take(const json& value, Schedules& to) {
  if (!value.is_string()) return false;
  auto schedules = parse_schedules(value.get_ref<const std::string&>());
  if (schedules.ok()) to = *std::move(schedules);
  return schedules.ok();
}

bool take(const json& value, NetworkAccess& to) {
  if (!value.is_string()) return false;
  auto access = parse_network_access(value.get_ref<const std::string&>());
  if (access.ok()) to = *std::move(access);
  return access.ok();
}

struct Reader {
  const json& record;
  Result<void> verdict = {};

  template <typename Value>
  void operator()(const FunctionField& field, Value& value) {
    const auto found = record.find(std::string(field.column));
    if (found == record.end() || take(*found, value) || !verdict.ok()) return;
    verdict = Error{ErrorCode::kDataLoss,
                    "the record of a function has a bad '" + std::string(field.column) + "'"};
  }
  void operator()(const FunctionField& field, std::optional<CpuVariant>& variant) {
    bool is_there = false;
    (*this)(field, is_there);
    CpuVariant read;
    visit_cpu_variant(*this, read);
    if (is_there) variant = std::move(read);
  }
};

}  // namespace

std::string to_record(const FunctionSpec& spec) {
  Writer writer;
  visit_fields(writer, spec);
  return json_text(writer.record);
}

Result<FunctionSpec> function_from_record(std::string_view text) {
  const json record = json::parse(text, nullptr, false);
  if (!record.is_object()) {
    return Error{ErrorCode::kDataLoss, "the record of a function is no JSON object"};
  }
  FunctionSpec spec;
  Reader reader{record};
  visit_fields(reader, spec);
  RETURN_IF_ERROR(reader.verdict);
  return spec;
}

}  // namespace lambent
