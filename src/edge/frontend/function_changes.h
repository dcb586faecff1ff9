// What a deployment changes of a function, as JSON that says it field by field. Pure; any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "core/domain/function.h"

namespace lambent::frontend {

// [{"field", "from", "to"}], by the columns of core/domain/function_fields.h. Variables and tags
// are fields of their own ("environment.MODEL"). Of variables only the names are told: their values
// may be secret.
nlohmann::json changes_of(const FunctionSpec& before, const FunctionSpec& after);

}  // namespace lambent::frontend
