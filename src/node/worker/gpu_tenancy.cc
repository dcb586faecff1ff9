#include "node/worker/gpu_tenancy.h"

namespace lambent::worker {

bool uses_a_gpu(const FunctionSpec& spec) {
  return spec.gpu.memory > Bytes(0) || spec.kind == FunctionKind::kKernel ||
         spec.kind == FunctionKind::kPipeline;
}

Result<void> GpuTenancy::admit(const FunctionName& name) {
  const bool is_taken = !functions_.empty() && functions_.begin()->tenant != name.tenant;
  if (one_tenant_only_ && is_taken) {
    return Error{ErrorCode::kFailedPrecondition,
                 "this worker's GPU is emulated and serves one tenant only, and another tenant has "
                 "functions that use it; deploy the function to a worker of its own (lambent serve "
                 "--gpu emulated with another --state, --run and --listen), or use a real GPU"};
  }
  functions_.insert(name);
  return {};
}

}  // namespace lambent::worker
