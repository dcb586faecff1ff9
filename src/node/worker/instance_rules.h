// InstanceRules: whether what functions are to have ready (min_instances) can be had together, in
// this worker and within the quotas of their tenants. Pure; used by Deployments.
#pragma once

#include <vector>

#include "core/domain/function.h"
#include "core/domain/tenant.h"
#include "decide/dispatch/options.h"

namespace lambent::worker {

struct InstanceRules {
  const dispatch::DispatchOptions& options;
  const TenantQuotas* quotas = nullptr;  // of the function's tenant; null: it has none
  bool keeps_instances = true;           // the policy does, on GPUs
  Bytes context_memory;                  // of a CUDA context
};

// FAILED_PRECONDITION, saying what would have to change, if `spec` asks for more than there is
// beside `others`, of all tenants. A quarter of the sandboxes that there may be stays for what is
// called.
Result<void> check_instances(const FunctionSpec& spec, const std::vector<FunctionSpec>& others,
                             const InstanceRules& rules);

}  // namespace lambent::worker
