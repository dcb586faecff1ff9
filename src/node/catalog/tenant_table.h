// Tenants, their tokens and secrets in the database. Free functions of the catalog's writer thread,
// each to be called inside a transaction.
#pragma once

#include <string>
#include <vector>

#include "node/catalog/database.h"
#include "node/catalog/records.h"

namespace lambent::catalog {

// Gives the id, if tenant.id is zero.
Result<Tenant> put_tenant(Database& database, Tenant tenant);
Result<void> remove_tenant(Database& database, TenantId tenant);
Result<std::vector<Tenant>> load_tenants(Database& database);

// Replaces what was saved of these tenants; those of removed tenants are skipped.
Result<void> save_gpu_times(Database& database, std::vector<GpuTimeRecord> records);
Result<std::vector<GpuTimeRecord>> load_gpu_times(Database& database);

Result<void> put_token(Database& database, const TokenRecord& record);
Result<void> remove_token(Database& database, const std::string& id);
Result<std::vector<TokenRecord>> load_tokens(Database& database);

Result<void> put_secret(Database& database, const SecretRecord& record);
Result<void> remove_secret(Database& database, TenantId tenant, const std::string& name);
Result<std::vector<SecretRecord>> load_secrets(Database& database);

}  // namespace lambent::catalog
