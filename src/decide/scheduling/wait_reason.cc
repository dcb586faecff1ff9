#include "decide/scheduling/wait_reason.h"

namespace lambent::scheduling {

std::string_view name_of(WaitReason reason) {
  switch (reason) {
    case WaitReason::kNone:
      return "none";
    case WaitReason::kOwnQueue:
      return "own_queue";
    case WaitReason::kConcurrencyLimit:
      return "concurrency_limit";
    case WaitReason::kThrottled:
      return "throttled";
    case WaitReason::kBehindOthers:
      return "behind_others";
    case WaitReason::kNoToken:
      return "no_token";
    case WaitReason::kNoMemory:
      return "no_memory";
    case WaitReason::kNoSandbox:
      return "no_sandbox";
    case WaitReason::kNoDevice:
      return "no_device";
    case WaitReason::kMemoryMoving:
      return "memory_moving";
    case WaitReason::kDraining:
      return "draining";
    case WaitReason::kOwnPool:
      return "own_pool";
    case WaitReason::kPoolHandover:
      return "pool_handover";
    case WaitReason::kHostBusy:
      return "host_busy";
    case WaitReason::kWarmElsewhere:
      return "warm_elsewhere";
    case WaitReason::kAtWork:
      return "at_work";
    case WaitReason::kTenantConcurrency:
      return "tenant_concurrency";
    case WaitReason::kTenantGpuMemory:
      return "tenant_gpu_memory";
    case WaitReason::kTenantHostMemory:
      return "tenant_host_memory";
    case WaitReason::kTenantGpuTime:
      return "tenant_gpu_time";
    case WaitReason::kTenantAhead:
      return "tenant_ahead";
    case WaitReason::kSlowsOthers:
      return "slows_others";
    case WaitReason::kGpusNotTogether:
      return "gpus_not_together";
    case WaitReason::kGpuReserved:
      return "gpu_reserved";
  }
  return "none";
}

}  // namespace lambent::scheduling
