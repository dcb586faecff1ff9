#include "edge/frontend/function_tags.h"

#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/parse_number.h"
#include "core/domain/function_fields.h"
#include "core/domain/function_words.h"
#include "core/domain/layer.h"
#include "core/domain/limits.h"
#include "core/domain/openai_models.h"
#include "edge/frontend/limits.h"

namespace lambent::frontend {
namespace {

constexpr std::string_view kPrefix = "lambent:";

Error bad_value(std::string_view key, std::string_view value, std::string_view wanted) {
  return Error{
      ErrorCode::kInvalidArgument,
      "tag '" + std::string(key) + "' is '" + std::string(value) + "', not " + std::string(wanted)};
}

template <typename Number>
bool read_number(std::string_view text, Number& number) {
  const auto read = parse_number<Number>(text);
  number = read.value_or(number);
  return read.has_value();
}

std::string shown(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", number);
  return text;
}

// Each reads a tag's text by the type of its field, and gives what was wanted if it cannot.
std::string read_value(const FunctionField&, const std::string& text, std::string& to) {
  to = text;
  return "";
}
std::string read_value(const FunctionField&, const std::string& text, bool& to) {
  if (text != "true" && text != "false") return "true or false";
  to = text == "true";
  return "";
}
std::string read_value(const FunctionField&, const std::string& text, Bytes& to) {
  const auto amount = parse_bytes(text);
  if (!amount.ok()) return "an amount of memory such as 512MiB or 2G";
  to = *amount;
  return "";
}
std::string read_value(const FunctionField& field, const std::string& text, unsigned& to) {
  const FieldRange& range = field.range;
  if (read_number(text, to) && to >= range.least && to <= range.most) return "";
  return "a whole number of " + shown(range.least) + " to " + shown(range.most);
}
std::string read_value(const FunctionField& field, const std::string& text, double& to) {
  const FieldRange& range = field.range;
  const bool is_read = read_number(text, to) && to >= range.least;
  if (!range.is_given()) return is_read ? "" : "a number such as 7.5, or 0";
  if (is_read && to <= range.most) return "";
  return "a number of " + shown(range.least) + " to " + shown(range.most);
}
std::string read_value(const FunctionField&, const std::string& text, Mounts& to) {
  auto mounts = parse_mounts(text);
  if (!mounts.ok()) return "a list of mounts such as weights:/weights,/data/models:/models";
  to = std::move(*mounts);
  return "";
}
std::string read_value(const FunctionField&, const std::string& text, Schedules& to) {
  auto schedules = parse_schedules(text);
  if (!schedules.ok()) return "a list of schedules as JSON: " + schedules.error().message;
  to = std::move(*schedules);
  return "";
}
std::string read_value(const FunctionField&, const std::string& text, NetworkAccess& to) {
  auto access = parse_network_access(text);
  if (!access.ok()) return "where the function connects to: " + access.error().message;
  to = std::move(*access);
  return "";
}
template <HasWords Enum>
std::string read_value(const FunctionField&, const std::string& text, Enum& to) {
  const auto known = value_named<Enum>(text);
  if (!known) return list_of_words<Enum>();
  to = *known;
  return "";
}

// A setting may be a whole list; what users call tags is as long as Lambda's.
size_t most_value(std::string_view key) {
  return key.starts_with(kPrefix) ? limits::kSettingTag.count : limits::kTagValueLength;
}

// Gives the fields that have a tag their defaults.
struct ResetSettings {
  template <typename Value>
  void operator()(const FunctionField& field, Value& to, const Value& value) {
    if (!field.tag.empty()) to = value;
  }
};

// The names of the tags: "kind, gpu-memory and weight".
struct TagNames {
  std::vector<std::string_view> names = {};

  template <typename Value>
  void operator()(const FunctionField& field, const Value&) {
    if (!field.tag.empty()) names.push_back(field.tag);
  }
  void operator()(const FunctionField& field, const std::optional<CpuVariant>& variant) {
    (*this)(field, variant.has_value());
    const CpuVariant any;
    visit_cpu_variant(*this, any);
  }
  std::string list() const {
    std::string list;
    for (size_t i = 0; i < names.size(); ++i) {
      if (i > 0) list += i + 1 == names.size() ? " and " : ", ";
      list += names[i];
    }
    return list;
  }
};

// Reads one tag after the other into the field that has it.
class TagReader {
 public:
  explicit TagReader(FunctionSpec& spec) : spec_(spec) {}

  Result<void> read(const std::string& key, const std::string& value) {
    setting_ = std::string_view(key).substr(kPrefix.size());
    value_ = &value;
    is_known_ = false;
    wanted_.clear();
    visit_fields(*this, spec_);
    if (key == kOpenaiModelsTag) take_models(value);
    if (key == kLayersTag) take_layers(value);
    if (!wanted_.empty()) return bad_value(key, value, wanted_);
    if (is_known_) return {};
    TagNames known;
    visit_fields(known, spec_);
    known.names.push_back(kOpenaiModelsTag.substr(kPrefix.size()));
    known.names.push_back(kLayersTag.substr(kPrefix.size()));
    return Error{
        ErrorCode::kInvalidArgument,
        "there is no setting '" + key + "'; tags that begin with lambent: are " + known.list()};
  }

  // After all of them: tags of a CPU variant may come before the one that makes it.
  Result<void> finish() {
    if (has_variant_) {
      spec_.cpu_variant = std::move(variant_);
    } else if (variant_ != CpuVariant{}) {
      return Error{ErrorCode::kInvalidArgument,
                   "the tags lambent:cpu-handler and lambent:gpu-speedup are of a CPU variant: "
                   "they need lambent:cpu-variant = true"};
    }
    if (names_models_ && spec_.kind != FunctionKind::kHttp) {
      return Error{ErrorCode::kInvalidArgument,
                   "the tag " + std::string(kOpenaiModelsTag) + " is of functions of kind 'http'"};
    }
    return {};
  }

  template <typename Value>
  void operator()(const FunctionField& field, Value& value) {
    if (field.tag.empty()) return;
    if constexpr (requires { read_value(field, *value_, value); }) {
      if (field.tag != setting_) return;
      is_known_ = true;
      wanted_ = read_value(field, *value_, value);
    } else {
      CHECK(false, "a field of this type has no form as a tag");
    }
  }
  void operator()(const FunctionField& field, std::optional<CpuVariant>&) {
    (*this)(field, has_variant_);
    visit_cpu_variant(*this, variant_);
  }

 private:
  // Of no field: the tag itself is where it is kept.
  void take_models(const std::string& value) {
    const auto names = parse_openai_models(value);
    is_known_ = true;
    names_models_ = names.ok() && !names->empty();
    if (!names.ok()) wanted_ = "a list of models such as tiny,org/large: " + names.error().message;
  }

  // As of models: the frontend finds what they are when the function is stored.
  void take_layers(const std::string& value) {
    const auto layers = parse_layers(value);
    is_known_ = true;
    if (!layers.ok())
      wanted_ = "a list of layers such as torch:3,tools:1: " + layers.error().message;
  }

  FunctionSpec& spec_;
  bool names_models_ = false;
  bool has_variant_ = false;
  CpuVariant variant_;
  // Of the tag that is read.
  std::string_view setting_;
  const std::string* value_ = nullptr;
  bool is_known_ = false;
  std::string wanted_;
};

}  // namespace

Result<void> apply_tags(FunctionSpec& spec) {
  const FunctionSpec defaults;
  ResetSettings reset;
  visit_fields(reset, spec, defaults);
  if (spec.tags.size() > limits::kTags) {
    return Error{ErrorCode::kInvalidArgument,
                 "a function has at most " + std::to_string(limits::kTags) + " tags"};
  }
  TagReader reader(spec);
  for (const auto& [key, value] : spec.tags) {
    if (key.empty() || key.size() > limits::kTagKeyLength || value.size() > most_value(key)) {
      return Error{ErrorCode::kInvalidArgument,
                   "a tag's key has 1 to 128 bytes and its value at most 256"};
    }
    if (key.starts_with(kPrefix)) RETURN_IF_ERROR(reader.read(key, value));
  }
  return reader.finish();
}

}  // namespace lambent::frontend
