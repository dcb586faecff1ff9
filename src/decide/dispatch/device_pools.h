// DevicePools: the pool of the GPUs and that of the host's processors, and which of them has what.
// Owned by Dispatcher, on the thread that handles events.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "decide/dispatch/device_pool.h"
#include "decide/dispatch/invocation_table.h"
#include "decide/dispatch/options.h"

namespace lambent::dispatch {

struct DevicePools {
  // `policy` orders the functions that use a GPU, `host_policy` (null: first come, first served)
  // those without.
  DevicePools(const DispatchOptions& options, std::unique_ptr<scheduling::Policy> policy,
              std::unique_ptr<scheduling::Policy> host_policy, const scheduling::Flows& flows,
              scheduling::Tenants& tenants, ActionLog& log);

  struct Found {
    DevicePool& pool;
    scheduling::SandboxSlot slot;
  };
  std::optional<Found> find(SandboxId id);
  // Where the function's invocations take turns.
  DevicePool& of(const scheduling::Flow& flow) {
    return processor_of(flow) == Processor::kGpu ? gpu : host;
  }
  // Where the invocation has its sandbox.
  DevicePool& of(const PendingInvocation& invocation) { return invocation.on_host ? host : gpu; }
  std::array<DevicePool*, 2> all() { return {&gpu, &host}; }

  DevicePool gpu;
  DevicePool host;
};

}  // namespace lambent::dispatch
