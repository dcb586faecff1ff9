// Versions, aliases and earlier revisions of functions, and deployments under way, in the database.
// Free functions of the catalog's writer thread, each to be called inside a transaction.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "node/catalog/database.h"
#include "node/catalog/records.h"

namespace lambent::catalog {

// Keeps the function as it is now under the next number of its versions, or under `number`, which
// is above all that it had. NOT_FOUND: it is gone; FAILED_PRECONDITION: such a number was used.
Result<FunctionSpec> publish_version(Database& database, FunctionSpec spec,
                                     std::optional<uint64_t> number = {});

// Keeps a version of another node under its number, also if a higher one was used here. NOT_FOUND:
// the function is not here.
Result<FunctionSpec> keep_version(Database& database, FunctionSpec spec, uint64_t number);

// NOT_FOUND: the function is gone.
Result<void> put_alias(Database& database, const Alias& alias);
Result<void> remove_alias(Database& database, const Alias& alias);
Result<std::vector<Alias>> load_aliases(Database& database);

// Keeps the function's record as one of its last kRevisionsKept, the present one included.
Result<void> keep_revision(Database& database, const FunctionSpec& spec);
// In order of function and revision. A record that cannot be read is left out.
Result<std::vector<FunctionSpec>> load_revisions(Database& database);

Result<void> put_deployment(Database& database, const DeploymentRecord& record);
Result<void> remove_deployment(Database& database, const FunctionName& name);
Result<std::vector<DeploymentRecord>> load_deployments(Database& database);

}  // namespace lambent::catalog
