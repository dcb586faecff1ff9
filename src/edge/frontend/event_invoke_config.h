// EventInvokeConfig: Lambda's calls of that name: how often an asynchronous invocation that failed
// is tried again, and which functions are told of its outcome. They are settings of the function
// (AsyncSettings), kept as its tags. Pure; used by the Lambda frontend.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/base/result.h"
#include "core/domain/function.h"

namespace lambent::frontend {

struct EventInvokeCall {
  enum class What { kPut, kUpdate, kGet, kList, kDelete } what = What::kGet;
  FunctionName name;
  // Of kPut and kUpdate; what is not given stays with kUpdate.
  std::optional<unsigned> retries = {};
  std::optional<unsigned> max_age_s = {};
  struct Destinations {
    std::string on_success, on_failure;  // names, perhaps with a qualifier; empty: none
  };
  std::optional<Destinations> destinations = {};
};

// INVALID_ARGUMENT: what Lambda refuses, or a destination that is no function.
Result<void> read_event_invoke_config(const nlohmann::json& object, EventInvokeCall& call);

// The function as it is to be, whose tags say it. NOT_FOUND: there is no configuration to change;
// INVALID_ARGUMENT: there is no such destination. `find` finds functions by their qualified names.
Result<FunctionSpec> with_event_invoke_config(
    FunctionSpec spec, const EventInvokeCall& call,
    const std::function<Result<FunctionSpec>(const FunctionName&)>& find);

// Whether the function says anything.
bool has_event_invoke_config(const FunctionSpec& spec);
nlohmann::json event_invoke_config_of(const FunctionSpec& spec);
Error no_event_invoke_config(const FunctionName& name);

}  // namespace lambent::frontend
