// Tenants and their tokens in the database. Free functions of the catalog's writer thread, each to
// be called inside a transaction.
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

Result<void> put_token(Database& database, const TokenRecord& record);
Result<void> remove_token(Database& database, const std::string& id);
Result<std::vector<TokenRecord>> load_tokens(Database& database);

}  // namespace lambent::catalog
