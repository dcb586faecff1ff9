// Where a command has its token from. Reads the environment; used by lambent's main, once.
#pragma once

#include <string>

#include "core/base/result.h"

namespace lambent::bin {

// The token in the file at `path`; if that is empty the one of LAMBENT_TOKEN; empty if there is
// none. FAILED_PRECONDITION if others than the file's owner can read it; INVALID_ARGUMENT if what
// is found is no token; what open() says otherwise. No error shows what was read. Blocks.
Result<std::string> find_token(const std::string& path);

}  // namespace lambent::bin
