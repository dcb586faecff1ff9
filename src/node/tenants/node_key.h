// The node's key: 32 random bytes in a file that only its owner can read. Signing secrets are
// derived from it and secrets are sealed with it, so that the database gives nothing away.
// Free functions; they block, for start-up.
#pragma once

#include <string>

#include "core/base/result.h"

namespace lambent::tenants {

// Makes the file, with a new key, if there is none. FAILED_PRECONDITION if others can read it, it
// has another size or is no file; what open() and kin say otherwise.
Result<std::string> read_or_make_node_key(const std::string& path);

}  // namespace lambent::tenants
