// The schema, as a list of numbered steps that bring any older database up to date. Used by the
// catalog when it opens, on one thread.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "node/catalog/database.h"

namespace lambent::catalog {

// Step n turns version n - 1 into version n. A step that was released is never changed.
const std::vector<std::string>& migrations();

// 0 for an empty database.
Result<int64_t> schema_version(Database& database);

// FAILED_PRECONDITION, with what to do, if a newer Lambent made `what`, a database of this version.
Result<void> expect_known_schema(int64_t version, const std::string& what);

// Applies the steps that are missing up to `target`, each in a transaction of its own.
// FAILED_PRECONDITION if the database is newer than we are.
Result<void> migrate(Database& database, size_t target = migrations().size());

}  // namespace lambent::catalog
