#include "node/worker/function_quotas.h"

namespace lambent::worker {

void FunctionQuotas::set(const Tenant& tenant) { tenants_.insert_or_assign(tenant.id, tenant); }

void FunctionQuotas::remove(TenantId tenant) { tenants_.erase(tenant); }

const TenantQuotas* FunctionQuotas::find(TenantId tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? nullptr : &found->second.quotas;
}

Result<void> FunctionQuotas::check(TenantId tenant, const Use& has, const Use& addition) const {
  const auto found = tenants_.find(tenant);
  if (found == tenants_.end()) return {};
  const auto reserved = reserved_.find(tenant);
  const Use pending = reserved == reserved_.end() ? Use{} : reserved->second;
  const TenantQuotas& quotas = found->second.quotas;
  const uint64_t functions = has.functions + pending.functions + addition.functions;
  if (quotas.functions && addition.functions > 0 && functions > *quotas.functions) {
    return Error{ErrorCode::kResourceExhausted, "tenant '" + found->second.name + "' may have " +
                                                    std::to_string(*quotas.functions) +
                                                    " functions (its quota) and has them; remove "
                                                    "one, or ask the operator for more"};
  }
  const Bytes disk = has.disk + pending.disk + addition.disk;
  if (quotas.disk && addition.disk > Bytes() && disk > *quotas.disk) {
    return Error{ErrorCode::kResourceExhausted,
                 "the packages, volumes, layers, logs and asynchronous invocations of tenant '" +
                     found->second.name + "' would take " + to_string(disk) +
                     "; its quota of disk is " + to_string(*quotas.disk)};
  }
  return {};
}

void FunctionQuotas::reserve(TenantId tenant, const Use& addition) {
  Use& reserved = reserved_[tenant];
  reserved.functions += addition.functions;
  reserved.disk += addition.disk;
}

void FunctionQuotas::release(TenantId tenant, const Use& addition) {
  const auto reserved = reserved_.find(tenant);
  if (reserved == reserved_.end()) return;
  reserved->second.functions -= addition.functions;
  reserved->second.disk -= addition.disk;
  if (reserved->second.functions == 0 && reserved->second.disk == Bytes())
    reserved_.erase(reserved);
}

}  // namespace lambent::worker
