// GpuTenancy: whose functions may use a GPU that must not be shared between tenants. An emulated
// GPU is one: its processes share a file that any of them can damage (docs/decisions/0059). A value
// of Deployments', on the loop thread.
#pragma once

#include <set>

#include "core/domain/function.h"

namespace lambent::worker {

bool uses_a_gpu(const FunctionSpec& spec);

class GpuTenancy {
 public:
  explicit GpuTenancy(bool one_tenant_only) : one_tenant_only_(one_tenant_only) {}

  // From now on the function counts as one that uses the GPU. FAILED_PRECONDITION: one of another
  // tenant does; nothing is said of which.
  Result<void> admit(const FunctionName& name);
  // It does not, or is no more.
  void release(const FunctionName& name) { functions_.erase(name); }
  bool one_tenant_only() const { return one_tenant_only_; }

 private:
  const bool one_tenant_only_;
  std::set<FunctionName> functions_;  // of one tenant, if there may be one only
};

}  // namespace lambent::worker
