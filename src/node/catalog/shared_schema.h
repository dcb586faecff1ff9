// The schema of the catalog that nodes of a cluster share, and how it is brought up to date. The
// same SQL makes it in PostgreSQL and in SQLite. Free functions; on the catalog's thread.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "node/catalog/database.h"

namespace lambent::catalog {

// Each step brings the schema to the next version; the first to version 1.
const std::vector<std::string>& shared_migrations();

// Steps after the last of those that programs before do without: these read and write the rest as
// they did, so that nodes of both versions work together and a node can go back.
const std::vector<std::string>& shared_additions();

// Brings it to version `target`, one node at a time, and the last one to all
// additions. FAILED_PRECONDITION: a newer Lambent made it.
Result<void> migrate_shared(Database& database, size_t target = shared_migrations().size());

// FAILED_PRECONDITION: a newer Lambent made it. Changes nothing. Of PostgreSQL only.
Result<void> check_shared_schema(Database& database);

}  // namespace lambent::catalog
