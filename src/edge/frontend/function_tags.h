// Our settings in a function's tags, since Lambda's API has no field for them: lambent:kind and the
// other tags of core/domain/function_fields.h. Free functions; any thread.
#pragma once

#include "core/base/result.h"
#include "core/domain/function.h"

namespace lambent::frontend {

// Reads spec.tags into the settings they stand for; a setting without a tag gets its default.
// INVALID_ARGUMENT, naming the tag, for a bad value, an unknown lambent: tag, too many or too long.
Result<void> apply_tags(FunctionSpec& spec);

}  // namespace lambent::frontend
