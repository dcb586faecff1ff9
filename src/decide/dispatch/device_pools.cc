#include "decide/dispatch/device_pools.h"

#include <utility>

#include "decide/scheduling/fcfs.h"

namespace lambent::dispatch {
namespace {

scheduling::FleetOptions host_fleet_options(const DispatchOptions& options) {
  scheduling::FleetOptions host;
  host.devices.push_back({.id = scheduling::kHostDevice,
                          .tokens = options.host_concurrency,
                          .contexts = options.host_sandboxes});
  host.most_sandboxes = options.host_sandboxes;
  host.eviction = options.fleet.eviction;
  host.bounds_host_starts = options.fleet.bounds_host_starts;
  if (host.eviction == scheduling::EvictionRule::kForeseen) {
    host.eviction = scheduling::EvictionRule::kCostAware;
  }
  // Its processors are many and its starts short: calls of one function run beside each other.
  host.second_grace_period = 0;
  return host;
}

std::unique_ptr<scheduling::Policy> or_fcfs(std::unique_ptr<scheduling::Policy> policy) {
  if (policy != nullptr) return policy;
  return std::make_unique<scheduling::FcfsPolicy>(scheduling::FcfsOptions{});
}

}  // namespace

DevicePools::DevicePools(const DispatchOptions& options, std::unique_ptr<scheduling::Policy> policy,
                         std::unique_ptr<scheduling::Policy> host_policy,
                         const scheduling::Flows& flows, scheduling::Tenants& tenants,
                         ActionLog& log)
    : gpu(Processor::kGpu, options.fleet, std::move(policy), options, flows, tenants, log),
      host(Processor::kHost, host_fleet_options(options), or_fcfs(std::move(host_policy)), options,
           flows, tenants, log) {}

std::optional<DevicePools::Found> DevicePools::find(SandboxId id) {
  for (DevicePool* pool : all()) {
    if (const auto slot = pool->fleet().find(id)) return Found{*pool, *slot};
  }
  return std::nullopt;
}

}  // namespace lambent::dispatch
