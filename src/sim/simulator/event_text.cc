#include "sim/simulator/event_text.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace lambent::simulator {
namespace {

// Writes ", name value" for each field; of bools only those that are set. A visitor of fields.
class TextWriter {
 public:
  explicit TextWriter(std::string_view kind) : text_(kind) {}

  template <typename Field>
  void operator()(std::string_view name, const Field& field) {
    text_ += ", " + std::string(name) + " " + text_of(field);
  }
  template <unsigned, typename Field>
  void flag(std::string_view name, const Field& field) {
    if constexpr (std::is_same_v<Field, bool>) {
      bit(name, field);
    } else {
      (*this)(name, field);
    }
  }
  template <typename... Bools>
  void flags(std::string_view names, const Bools&... bools) {
    (bit(first_of(names), bools), ...);
  }
  template <typename... Bools>
  void bits(std::string_view names, const Bools&... bools) {
    flags(names, bools...);
  }
  void within(std::string_view name, double field, double, double) { (*this)(name, field); }
  template <typename Field>
  void unhashed(std::string_view name, const Field& field) {
    (*this)(name, field);
  }
  template <typename Field>
  void maybe(std::string_view name, const std::optional<Field>& field) {
    if (field) (*this)(name, *field);
  }
  template <unsigned, typename Field>
  void unless_zero(std::string_view name, const Field& field) {
    if (field != Field{}) (*this)(name, field);
  }
  template <unsigned, typename Fields>
  void part(bool set, Fields fields) {
    if (set) fields(*this);
  }
  template <typename Fields>
  void only_if(bool set, Fields fields) {
    if (set) fields(*this);
  }
  std::string take() { return std::move(text_); }

 private:
  void bit(std::string_view name, bool set) {
    if (set) text_ += ", " + std::string(name);
  }
  // Takes the first of names that commas join.
  static std::string_view first_of(std::string_view& names) {
    const std::string_view first = names.substr(0, names.find(','));
    names.remove_prefix(std::min(first.size() + 1, names.size()));
    return first;
  }

  template <typename Tag, typename Number>
  static std::string text_of(StrongId<Tag, Number> id) {
    return std::to_string(id.value);
  }
  // Simulations count their invocations in the lower half.
  static std::string text_of(const InvocationId& id) { return std::to_string(id.low); }
  static std::string text_of(Bytes amount) { return to_string(amount); }
  static std::string text_of(Duration duration) { return text_of(to_seconds(duration)) + " s"; }
  static std::string text_of(Instant instant) { return text_of(instant.time_since_epoch()); }
  static std::string text_of(double number) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.9g", number);
    return text;
  }
  static std::string text_of(const std::string& text) { return "'" + text + "'"; }
  static std::string text_of(const std::optional<Error>& error) {
    return error ? to_string(*error) : "none";
  }
  template <typename Value>
  requires std::is_enum_v<Value>
  static std::string text_of(Value value) { return std::string(name_of(value)); }
  template <typename Number>
  requires std::is_integral_v<Number>
  static std::string text_of(Number number) { return std::to_string(number); }

  std::string text_;
};

template <typename Variant>
std::string text_of_any(const Variant& any) {
  return std::visit(
      []<typename Kind>(const Kind& one) {
        TextWriter writer(Kind::kName);
        Kind::fields(one, writer);
        return writer.take();
      },
      any);
}

}  // namespace

std::string in_words(const dispatch::Event& event) { return text_of_any(event); }
std::string in_words(const dispatch::Action& action) { return text_of_any(action); }

}  // namespace lambent::simulator
