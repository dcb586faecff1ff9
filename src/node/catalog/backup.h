// A copy of the catalog's database while a worker has it open, and whether this Lambent knows one.
// Free functions; they block.
#pragma once

#include <string>

#include "core/base/result.h"

namespace lambent::catalog {

// The copy is the state after some commit, and after every one that ended before the call. Nothing
// else of the folder is touched. NOT_FOUND: there is no database at `from`; ALREADY_EXISTS: there
// is a file at `to`; DATA_LOSS: the database is damaged.
Result<void> copy_database(const std::string& from, const std::string& to);

// Whether this Lambent could open it: DATA_LOSS if it is damaged or no database,
// FAILED_PRECONDITION if a newer one made it. Reads all of it.
Result<void> check_database(const std::string& path);

// The same of its schema only: it takes no longer for a large one, and changes nothing. NOT_FOUND:
// there is none.
Result<void> check_schema(const std::string& path);

}  // namespace lambent::catalog
