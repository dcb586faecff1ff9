#include "node/worker/instance_rules.h"

#include <string>

#include "node/worker/function_rules.h"

namespace lambent::worker {
namespace {

// What instances of functions take together.
struct Instances {
  uint64_t count = 0;
  Bytes gpu, host;
  Bytes stays;  // of `gpu`, on the GPUs whatever else needs them

  void add(const FunctionSpec& spec, Bytes context_memory) {
    const auto profile = profile_of(spec, 1, context_memory, nullptr);
    count += spec.min_instances;
    const Bytes on_gpus = profile.device_memory * spec.gpu.count * spec.min_instances;
    gpu += on_gpus;
    if (!profile.memory_moves) stays += on_gpus;
    host += profile.host_memory * spec.min_instances;
  }
};

Error refused(const FunctionSpec& spec, const std::string& why) {
  return Error{ErrorCode::kFailedPrecondition,
               "min_instances is " + std::to_string(spec.min_instances) + ", but " + why};
}

Result<void> check_pool(const FunctionSpec& spec, const Instances& all,
                        const InstanceRules& rules) {
  const bool uses_gpu = takes_turns_on_a_gpu(spec);
  const scheduling::FleetOptions& fleet = rules.options.fleet;
  const unsigned sandboxes = uses_gpu ? fleet.most_sandboxes : rules.options.host_sandboxes;
  const unsigned most = sandboxes - (sandboxes + 3) / 4;
  if (all.count > most) {
    return refused(spec,
                   "functions " + std::string(uses_gpu ? "with" : "without") + " GPU may have " +
                       std::to_string(most) + " instances ready together, three quarters of the " +
                       std::to_string(sandboxes) +
                       " sandboxes of this worker (lambent serve --pool), and it makes them " +
                       std::to_string(all.count));
  }
  if (!uses_gpu) return {};
  Bytes memory;
  for (const scheduling::DeviceOptions& device : fleet.devices) memory += device.memory;
  const bool moves = scheduling::moves_idle(fleet.memory_rule);
  const Bytes taken = moves ? all.stays : all.gpu;
  if (taken <= memory) return {};
  const std::string what = moves ? "instances whose memory does not move" : "instances";
  return refused(spec, what + " take " + to_string(taken) +
                           " of device memory together, and that stays on the GPUs of this worker, "
                           "which have " +
                           to_string(memory));
}

Result<void> check_tenant(const FunctionSpec& spec, const Instances& own,
                          const TenantQuotas& quotas) {
  if (quotas.concurrency && own.count > *quotas.concurrency) {
    return refused(spec, "the tenant may run " + std::to_string(*quotas.concurrency) +
                             " invocations at once, and its functions would have " +
                             std::to_string(own.count) + " instances");
  }
  const auto exceeds = [&](const char* what, const std::optional<Bytes>& quota,
                           Bytes needed) -> Result<void> {
    if (!quota || needed <= *quota) return {};
    return refused(spec, "the tenant's quota of " + std::string(what) + " is " + to_string(*quota) +
                             ", and its instances would take " + to_string(needed));
  };
  RETURN_IF_ERROR(exceeds("GPU memory", quotas.gpu_memory, own.gpu));
  return exceeds("host memory", quotas.host_memory, own.host);
}

}  // namespace

Result<void> check_instances(const FunctionSpec& spec, const std::vector<FunctionSpec>& others,
                             const InstanceRules& rules) {
  if (spec.min_instances == 0) return {};
  const bool uses_gpu = takes_turns_on_a_gpu(spec);
  if (uses_gpu && !rules.keeps_instances) {
    return refused(spec, "the scheduling policy of this worker keeps no instances on GPUs");
  }
  Instances pool, tenant;
  pool.add(spec, rules.context_memory);
  tenant.add(spec, rules.context_memory);
  for (const FunctionSpec& other : others) {
    if (other.min_instances == 0 || other.name == spec.name) continue;
    if (takes_turns_on_a_gpu(other) == uses_gpu) pool.add(other, rules.context_memory);
    if (other.name.tenant == spec.name.tenant) tenant.add(other, rules.context_memory);
  }
  RETURN_IF_ERROR(check_pool(spec, pool, rules));
  return rules.quotas == nullptr ? Result<void>() : check_tenant(spec, tenant, *rules.quotas);
}

}  // namespace lambent::worker
