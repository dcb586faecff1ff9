// A FunctionSpec as text and back: what is kept of earlier revisions and of deployments under way.
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "core/domain/function.h"

namespace lambent {

// JSON, by the columns of core/domain/function_fields.h. A field that a text does not have gets its
// default, and one that is not known is passed over: texts of before stay readable.
std::string to_record(const FunctionSpec& spec);
// DATA_LOSS if it is no such text.
Result<FunctionSpec> function_from_record(std::string_view text);

}  // namespace lambent
