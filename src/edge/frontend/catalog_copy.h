// What of a node's catalog others copy: each function as the settings of a deployment, with a
// digest by which two nodes see whether they have the same. Free functions; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/base/result.h"
#include "core/domain/function.h"
#include "core/domain/version.h"

namespace lambent::frontend {

// Which read_new_function() reads back, with the digest of the code.
nlohmann::json copy_of(const FunctionSpec& spec);
// Of a copy: equal for functions that are the same on two nodes.
std::string digest_of_copy(const nlohmann::json& copy);
// INVALID_ARGUMENT.
Result<FunctionSpec> read_copy(const nlohmann::json& copy, TenantId tenant);

nlohmann::json copy_of(const Alias& alias);
// INVALID_ARGUMENT. fuzzed.
Result<Alias> read_alias_copy(const nlohmann::json& copy, TenantId tenant);

}  // namespace lambent::frontend
