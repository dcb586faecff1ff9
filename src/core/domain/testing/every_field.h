// A function whose fields all differ from their defaults, for tests that a representation forgets
// none of them.
#pragma once

#include <concepts>
#include <optional>
#include <string>

#include "core/domain/function_fields.h"
#include "core/domain/function_words.h"

namespace lambent {

struct GiveOtherValue {
  void operator()(const FunctionField& field, std::string& value) { value = field.column; }
  void operator()(const FunctionField&, bool& value) { value = !value; }
  template <std::unsigned_integral Number>
  void operator()(const FunctionField&, Number& value) {
    value = 40;
  }
  void operator()(const FunctionField& field, double& value) {
    value = field.column == "async_retries" ? 2 : 2.5;  // a count
  }
  void operator()(const FunctionField&, Bytes& value) { value = Bytes::mib(300); }
  void operator()(const FunctionField&, Duration& value) { value = seconds(7); }
  template <typename Tag, typename Number>
  void operator()(const FunctionField&, StrongId<Tag, Number>& value) {
    value = StrongId<Tag, Number>(5);
  }
  template <HasWords Enum>
  void operator()(const FunctionField&, Enum& value) {
    for (const Enum other : Words<Enum>::kValues) {
      if (other != value) return static_cast<void>(value = other);
    }
  }
  void operator()(const FunctionField&, NetworkAccess& value) {
    value = *parse_network_access("api.example.org:443,10.1.2.3:5432");
  }
  void operator()(const FunctionField&, Mounts& value) {
    value = {{.volume = "weights", .host = {}, .at = "/weights"},
             {.volume = {}, .host = "/data/models", .at = "/models"}};
  }
  void operator()(const FunctionField&, Schedules& value) {
    value = {{.name = "nightly",
              .cron = "30 2 * * *",
              .rate = {},
              .timezone = "UTC",
              .payload = R"({"full":true})",
              .catch_up = true,
              .enabled = false}};
  }
  void operator()(const FunctionField& field, Variables& value) {
    value = {{std::string(field.column), "1"}};
  }
  void operator()(const FunctionField&, std::optional<CpuVariant>& value) {
    value.emplace();
    visit_cpu_variant(*this, *value);
  }
};

// Its fields need not go together.
inline FunctionSpec with_every_field_set() {
  FunctionSpec spec;
  GiveOtherValue give;
  visit_fields(give, spec);
  spec.runtime_name = "python3.11";  // its runtime is kPython
  return spec;
}

}  // namespace lambent
