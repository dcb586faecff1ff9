#include "decide/workflow/reference.h"

#include <algorithm>
#include <cctype>

#include "core/base/spelling.h"
#include "decide/workflow/limits.h"

namespace lambent::workflow {
namespace {

constexpr std::string_view kInput = "input";
constexpr std::string_view kItem = "item";
constexpr std::string_view kIndex = "index";

Error invalid(std::string what) { return {ErrorCode::kInvalidArgument, std::move(what)}; }

bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

// The letters, digits, '_' and '-' at the front, which are taken off.
std::string_view take_word(std::string_view& text) {
  size_t length = 0;
  while (length < text.size() && is_word_character(text[length])) ++length;
  const std::string_view word = text.substr(0, length);
  text.remove_prefix(length);
  return word;
}

// `["..."]` at the front, which is taken off.
Result<std::string> take_quoted_key(std::string_view& text) {
  size_t end = 2;
  while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
  if (end + 1 >= text.size() || text[end + 1] != ']') return invalid("'\"]' is missing");
  const Value key = Value::parse(text.substr(1, end), nullptr, false);
  if (!key.is_string()) return invalid("the key in quotes is no JSON text");
  text.remove_prefix(end + 2);
  return key.get<std::string>();
}

// `[12]` at the front, which is taken off.
Result<uint32_t> take_number(std::string_view& text) {
  size_t end = 1;
  uint64_t number = 0;
  while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0 &&
         number <= UINT32_MAX) {
    number = number * 10 + static_cast<uint64_t>(text[end++] - '0');
  }
  if (end == 1 || end >= text.size() || text[end] != ']' || number > UINT32_MAX) {
    return invalid("a whole number or a key in quotes is expected between '[' and ']'");
  }
  text.remove_prefix(end + 1);
  return static_cast<uint32_t>(number);
}

Result<Reference> root_of(std::string_view name, std::span<const std::string> component_names) {
  Reference reference;
  if (name == kInput) return reference;
  if (name == kItem || name == kIndex) {
    reference.root = name == kItem ? Reference::Root::kItem : Reference::Root::kIndex;
    return reference;
  }
  reference.root = Reference::Root::kComponent;
  const auto found = std::find(component_names.begin(), component_names.end(), name);
  if (found != component_names.end()) {
    reference.component = static_cast<uint32_t>(found - component_names.begin());
    return reference;
  }
  std::vector<std::string_view> known{kInput, kItem, kIndex};
  known.insert(known.end(), component_names.begin(), component_names.end());
  return invalid("there is no component '" + std::string(name) + "'" +
                 did_you_mean(name, known, "$"));
}

class Resolving {
 public:
  explicit Resolving(const Scope& scope) : scope_(scope) {}

  Result<Value> operator()(const Template& from, const std::string& place) {
    if (const auto* value = std::get_if<Value>(&from.content)) {
      RETURN_IF_ERROR(count(weight_of(*value), place));
      return *value;
    }
    if (const auto* reference = std::get_if<Reference>(&from.content)) {
      const auto found = follow(*reference, scope_);
      if (!found.ok()) return found.error().with_context(place);
      RETURN_IF_ERROR(count(weight_of(**found), place));
      return **found;
    }
    if (const auto* list = std::get_if<Template::List>(&from.content)) {
      Value made = Value::array();
      for (size_t i = 0; i < list->size(); ++i) {
        ASSIGN_OR_RETURN(Value each, (*this)((*list)[i], place + "[" + std::to_string(i) + "]"));
        made.push_back(std::move(each));
      }
      return made;
    }
    Value made = Value::object();
    for (const auto& [key, inner] : std::get<Template::Object>(from.content)) {
      ASSIGN_OR_RETURN(Value each, (*this)(inner, place + "." + key));
      made[key] = std::move(each);
    }
    return made;
  }

 private:
  Result<void> count(Bytes weight, const std::string& place) {
    weight_ += weight;
    if (weight_ <= limits::kValue) return {};
    return Error{ErrorCode::kResourceExhausted, place + ": what is put together is larger than " +
                                                    to_string(limits::kValue) +
                                                    "; hand large data on as objects"};
  }

  const Scope& scope_;
  Bytes weight_;
};

}  // namespace

Result<Reference> parse_reference(std::string_view text,
                                  std::span<const std::string> component_names) {
  if (text.size() > limits::kReferenceLength) {
    return invalid("a reference has at most " + std::to_string(limits::kReferenceLength) +
                   " characters");
  }
  const std::string whole(text);
  const auto wrong = [&](const Error& error) { return error.with_context("'" + whole + "'"); };
  if (!text.starts_with('$')) return wrong(invalid("a reference begins with '$'"));
  text.remove_prefix(1);
  const std::string_view name = take_word(text);
  if (name.empty()) {
    return wrong(
        invalid("a name is expected after '$'; a text that begins with '$' is written with "
                "two of them, '$$'"));
  }
  auto reference = root_of(name, component_names);
  if (!reference.ok()) return wrong(reference.error());
  while (!text.empty()) {
    if (reference->path.size() == limits::kReferenceSteps) {
      return wrong(invalid("more than " + std::to_string(limits::kReferenceSteps) + " steps"));
    }
    if (text.starts_with("[\"")) {
      auto key = take_quoted_key(text);
      if (!key.ok()) return wrong(key.error());
      reference->path.emplace_back(std::move(*key));
    } else if (text.starts_with('[')) {
      const auto number = take_number(text);
      if (!number.ok()) return wrong(number.error());
      reference->path.emplace_back(*number);
    } else if (text.starts_with('.')) {
      text.remove_prefix(1);
      const std::string_view key = take_word(text);
      if (key.empty()) return wrong(invalid("a key is expected after '.'"));
      reference->path.emplace_back(std::string(key));
    } else {
      return wrong(invalid("'" + std::string(text.substr(0, 16)) +
                           "' follows it; a reference stands alone in its text"));
    }
  }
  return reference;
}

std::string to_text(const Reference& reference, std::span<const std::string> component_names) {
  std::string text = "$";
  switch (reference.root) {
    case Reference::Root::kInput:
      text += kInput;
      break;
    case Reference::Root::kItem:
      text += kItem;
      break;
    case Reference::Root::kIndex:
      text += kIndex;
      break;
    case Reference::Root::kComponent:
      text += component_names[reference.component];
  }
  for (const auto& step : reference.path) {
    if (const auto* number = std::get_if<uint32_t>(&step)) {
      text += "[" + std::to_string(*number) + "]";
      continue;
    }
    const auto& key = std::get<std::string>(step);
    const bool plain = !key.empty() && std::all_of(key.begin(), key.end(), is_word_character);
    text += plain ? "." + key : "[" + to_text(Value(key)) + "]";
  }
  return text;
}

Result<const Value*> follow(const Reference& reference, const Scope& scope) {
  const Value* at = nullptr;
  switch (reference.root) {
    case Reference::Root::kInput:
      at = scope.input;
      break;
    case Reference::Root::kItem:
      at = scope.item;
      break;
    case Reference::Root::kIndex:
      at = scope.index;
      break;
    case Reference::Root::kComponent:
      at = scope.results[reference.component];
  }
  for (size_t i = 0; i < reference.path.size() && !at->is_null(); ++i) {
    const auto& step = reference.path[i];
    const Value* inner = nullptr;
    std::string missing;
    if (const auto* number = std::get_if<uint32_t>(&step)) {
      if (at->is_array() && *number < at->size()) inner = &(*at)[*number];
      missing = at->is_array() ? "the list has " + std::to_string(at->size()) + " entries"
                               : "a list is expected, this is " + std::string(kind_of(*at));
    } else {
      const auto& key = std::get<std::string>(step);
      const auto found = at->is_object() ? at->find(key) : at->end();
      if (at->is_object() && found != at->end()) inner = &*found;
      missing = at->is_object() ? "there is no key '" + key + "'"
                                : "an object is expected, this is " + std::string(kind_of(*at));
    }
    if (inner == nullptr) {
      return Error{ErrorCode::kOutOfRange, to_text(reference, scope.names) + ": " + missing};
    }
    at = inner;
  }
  return at;
}

Result<Value> resolve(const Template& from, const Scope& scope, const std::string& place) {
  return Resolving(scope)(from, place);
}

Result<const Value*> refer(const Template& from, const Scope& scope, const std::string& place,
                           Value& made) {
  if (const auto* value = std::get_if<Value>(&from.content)) return value;
  if (const auto* reference = std::get_if<Reference>(&from.content)) {
    auto found = follow(*reference, scope);
    if (!found.ok()) return found.error().with_context(place);
    return found;
  }
  ASSIGN_OR_RETURN(made, resolve(from, scope, place));
  return &made;
}

Result<Value> resolve_or_null(const Template& from, const Scope& scope, const std::string& place) {
  auto resolved = resolve(from, scope, place);
  if (!resolved.ok() && resolved.error().code == ErrorCode::kOutOfRange) return Value();
  return resolved;
}

Result<bool> holds(const Condition& condition, const Scope& scope) {
  const Value nothing;
  const auto found = follow(condition.reference, scope);
  const Value& left = found.ok() ? **found : nothing;
  if (condition.comparison == Comparison::kTrue) return is_true(left);
  if (condition.comparison == Comparison::kNotTrue) return !is_true(left);
  Value made;
  const auto resolved = refer(condition.value, scope, "when.value", made);
  if (!resolved.ok() && resolved.error().code != ErrorCode::kOutOfRange) return resolved.error();
  const Value& right = resolved.ok() ? **resolved : nothing;
  if (condition.comparison == Comparison::kEqual) return left == right;
  if (condition.comparison == Comparison::kUnequal) return left != right;
  if (left.is_null() || right.is_null()) return false;
  const bool comparable =
      (left.is_number() && right.is_number()) || (left.is_string() && right.is_string());
  if (!comparable) {
    return invalid("when: " + to_text(condition.reference, scope.names) + " is " +
                   std::string(kind_of(left)) + " and cannot be put in an order with " +
                   std::string(kind_of(right)));
  }
  switch (condition.comparison) {
    case Comparison::kLess:
      return left < right;
    case Comparison::kAtMost:
      return left <= right;
    case Comparison::kMore:
      return left > right;
    default:
      return left >= right;
  }
}

}  // namespace lambent::workflow
