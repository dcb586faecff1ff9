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

// 0 for an empty database. Changes nothing.
Result<int64_t> schema_version(Database& database);

// A schema that was found, and the newest one that this Lambent knows.
struct SchemaVersions {
  int64_t found = 0;
  size_t known = 0;
};
// FAILED_PRECONDITION, with the advice, if a newer Lambent made `what`, a database.
Result<void> expect_known_schema(const std::string& what, const SchemaVersions& versions,
                                 const std::string& advice);
// The schema's version; FAILED_PRECONDITION if it is newer than we are.
Result<int64_t> known_schema_version(Database& database, const std::string& what);

// Applies the steps that are missing up to `target`, each in a transaction of its own.
// FAILED_PRECONDITION if the database is newer than we are.
Result<void> migrate(Database& database, size_t target = migrations().size());

}  // namespace lambent::catalog
