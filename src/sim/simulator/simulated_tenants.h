// Tenants of a simulation: what `lambent simulate --tenant` says of them, and which functions are
// whose. Pure; used by workload runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "decide/dispatch/event.h"

namespace lambent::simulator {

struct SimulatedTenant {
  std::string name;
  dispatch::TenantChanged changed;     // its weight and quotas; its id is given by those before it
  std::vector<std::string> functions;  // by name; none: its part of those that no tenant names
};

// "NAME,KEY=VALUE,...": weight=3, concurrency=4, gpu-memory=8GiB, host-memory=16GiB, gpu-time=600
// (seconds in an hour), functions=A+B. INVALID_ARGUMENT names what is wrong.
Result<SimulatedTenant> parse_tenant(std::string_view text);

// Of each function the index of its tenant: the one that names it, else those that name none, in
// turn. INVALID_ARGUMENT if a function is named that there is not, or twice, or has no tenant.
Result<std::vector<size_t>> tenants_of(const std::vector<std::string>& functions,
                                       const std::vector<SimulatedTenant>& tenants);

// What came of a tenant's invocations.
struct TenantTotals {
  std::string name;
  double weight = 1;
  uint64_t invocations = 0;
  uint64_t failed = 0;
  double latency_s = 0;   // the sum of those that succeeded
  double gpu_time_s = 0;  // of runs on GPUs

  double mean_s() const {
    const uint64_t succeeded = invocations - failed;
    return succeeded > 0 ? latency_s / static_cast<double>(succeeded) : 0;
  }
};

}  // namespace lambent::simulator
