// Functions and their statistics in the database. Free functions of the catalog's writer thread,
// each to be called inside a transaction.
#pragma once

#include <vector>

#include "node/catalog/database.h"
#include "node/catalog/records.h"

namespace lambent::catalog {

// Gives the id, if spec.id is zero.
Result<FunctionSpec> put_function(Database& database, FunctionSpec spec);
// An id that no function had or will have.
Result<FunctionId> reserve_function_id(Database& database);
Result<void> remove_function(Database& database, const FunctionName& name);
Result<std::vector<FunctionSpec>> load_functions(Database& database);

// Skips functions that are gone.
Result<void> save_statistics(Database& database, const std::vector<FunctionStatistics>& statistics);
Result<std::vector<FunctionStatistics>> load_statistics(Database& database);

// Replaces the function's older one; that of a removed function is skipped.
Result<void> save_profile(Database& database, const PipelineProfileRecord& record);
Result<std::vector<PipelineProfileRecord>> load_profiles(Database& database);

// The same of a schedule's firing.
Result<void> save_firing(Database& database, const FiringRecord& record);
Result<std::vector<FiringRecord>> load_firings(Database& database);

}  // namespace lambent::catalog
