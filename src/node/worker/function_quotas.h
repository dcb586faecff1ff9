// FunctionQuotas: how many functions a tenant may have, and how many bytes their packages, counting
// those that are being deployed. Pure; owned by Deployments, on the loop thread.
#pragma once

#include <string>
#include <unordered_map>

#include "core/base/result.h"
#include "core/domain/invocation_service.h"
#include "core/domain/tenant.h"

namespace lambent::worker {

class FunctionQuotas {
 public:
  void set(const Tenant& tenant);
  void remove(TenantId tenant);
  // Null: the tenant is not known.
  const TenantQuotas* find(TenantId tenant) const;

  // What a deployment adds to what its tenant has.
  struct Addition {
    uint64_t functions = 0;
    Bytes code;
  };
  // RESOURCE_EXHAUSTED, naming the quota, if the tenant would have more than it may; of code `has`
  // counts what else it has on the disk. A tenant that
  // has more already, because its quota was lowered, may still deploy what adds nothing.
  Result<void> check(TenantId tenant, const FunctionTotals& has, const Addition& addition) const;

  // What was checked counts until it is released: then it is in the totals, or was not stored.
  void reserve(TenantId tenant, const Addition& addition);
  void release(TenantId tenant, const Addition& addition);

 private:
  std::unordered_map<TenantId, Tenant> tenants_;
  std::unordered_map<TenantId, Addition> reserved_;
};

}  // namespace lambent::worker
