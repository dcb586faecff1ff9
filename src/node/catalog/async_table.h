// Asynchronous invocations and their results in the database. Free functions of the catalog's
// writer thread, each to be called inside a transaction.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "node/catalog/database.h"
#include "node/catalog/records.h"

namespace lambent::catalog {

// The id under which it is kept: its own, or that of an earlier one with the same key.
Result<InvocationId> put_async(Database& database, const AsyncInvocation& invocation);
// The id of the tenant's invocation with that key, if it is not empty and there is one.
Result<std::optional<InvocationId>> find_async(Database& database, TenantId tenant,
                                               const std::string& idempotency_key);
Result<void> begin_async(Database& database, TenantId tenant, InvocationId id);
Result<void> retry_async(Database& database, TenantId tenant, InvocationId id,
                         const AsyncRetry& retry);
Result<void> finish_async(Database& database, TenantId tenant, const InvocationResult& result,
                          Duration expires_at, const std::optional<AsyncSuccessor>& successor);
// One without a result; nothing if there is none.
Result<std::optional<AsyncInvocation>> find_pending(Database& database, TenantId tenant,
                                                    InvocationId id);
Result<std::optional<InvocationResult>> read_async_result(Database& database, TenantId tenant,
                                                          InvocationId id);
Result<uint64_t> expire_results(Database& database, Duration now, size_t most);

// What the tenant's take with their results: payloads, client contexts, ends of logs, and
// limits::kAsyncOverhead for each. Kept by triggers, so that nothing is added up here.
Result<Bytes> async_bytes(Database& database, TenantId tenant);
Result<std::map<TenantId, Bytes>> all_async_bytes(Database& database);

Result<uint64_t> count_pending(Database& database);
Result<std::vector<AsyncInvocation>> load_pending(Database& database, uint64_t after_sequence,
                                                  size_t limit, Bytes payload_limit);

}  // namespace lambent::catalog
