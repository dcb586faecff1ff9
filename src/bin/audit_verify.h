// lambent audit verify: whether an audit log's lines still continue each other. Used by lambent's
// main.
#pragma once

#include <string>

#include "edge/cli/console.h"

namespace lambent::bin {

// 0 if all lines hold; the code of DATA_LOSS, and the number of the first that does not, if one was
// changed, taken out or put in after it was written; that of the error if `path` cannot be read.
int run_audit_verify(cli::Console& console, const std::string& path);

}  // namespace lambent::bin
