// FunctionQuotas: how many functions a tenant may have, and how much of the disk, counting what is
// being deployed. Pure; owned by Deployments, on the loop thread.
#pragma once

#include <string>
#include <unordered_map>

#include "core/base/result.h"
#include "core/base/units.h"
#include "core/domain/tenant.h"

namespace lambent::worker {

class FunctionQuotas {
 public:
  void set(const Tenant& tenant);
  void remove(TenantId tenant);
  // Null: the tenant is not known.
  const TenantQuotas* find(TenantId tenant) const;

  // What a tenant has, or a deployment adds to it.
  struct Use {
    uint64_t functions = 0;
    Bytes disk;  // all that its quota of the disk counts (docs/decisions/0217)
  };
  // RESOURCE_EXHAUSTED, naming the quota, if the tenant would have more than it may. One that has
  // more already, because its quota was lowered, may still deploy what adds nothing.
  Result<void> check(TenantId tenant, const Use& has, const Use& addition) const;

  // What was checked counts until it is released: then it is in what the tenant has, or was not
  // stored.
  void reserve(TenantId tenant, const Use& addition);
  void release(TenantId tenant, const Use& addition);

 private:
  std::unordered_map<TenantId, Tenant> tenants_;
  std::unordered_map<TenantId, Use> reserved_;
};

}  // namespace lambent::worker
