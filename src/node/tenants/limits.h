// The limits of tenants by name: what each may have whatever its quotas are.
#pragma once

#include <cstddef>

namespace lambent::limits {

constexpr size_t kTenants = 20'000;
constexpr size_t kTokensPerTenant = 1'000;
constexpr size_t kTokenNameLength = 64;
constexpr size_t kSecretsPerTenant = 1'000;

}  // namespace lambent::limits
