// Tenant: a team that shares the node with others: its name, its share and its quotas. A value;
// changed by operators, kept by the catalog, read by all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent {

// The tenant of a worker that was given no others.
constexpr TenantId kDefaultTenant{1};
constexpr const char* kDefaultTenantName = "default";

// What a tenant may use of one node. One that is not set is not limited, beyond what limits the
// whole node.
struct TenantQuotas {
  std::optional<uint64_t> functions;
  std::optional<uint64_t> concurrency;  // its invocations that are at work at once
  // What its functions ask for of GPU memory, counted for each of their sandboxes, over all GPUs.
  std::optional<Bytes> gpu_memory;
  std::optional<Duration> gpu_time_per_hour;  // of runs that hold a GPU, over a sliding hour
  std::optional<Bytes> host_memory;           // the limits of its sandboxes' memory
  std::optional<Bytes> objects;               // memory and disk of its objects
  std::optional<Bytes> disk;                  // the packages of its functions, and its volumes
  std::optional<double> requests_per_second;  // over HTTP, with bursts of one second's worth

  bool operator==(const TenantQuotas&) const = default;
};

struct Tenant {
  TenantId id;
  std::string name;
  // Its share of the GPUs beside other tenants that have work; within it its functions share by
  // their own weights.
  double weight = 1;
  TenantQuotas quotas;
  Duration created_at{};  // since the Unix epoch

  bool operator==(const Tenant&) const = default;
};

// INVALID_ARGUMENT, naming the field, if the name or a number is none that a tenant may have.
Result<void> validate(const Tenant& tenant);

}  // namespace lambent
