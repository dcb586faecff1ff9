// What the catalog keeps besides functions: asynchronous invocations and learnt statistics. Values;
// made by the worker, used on any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "domain/function.h"
#include "domain/invocation.h"

namespace lambent::catalog {

// An asynchronous invocation that was accepted and has no result yet.
struct AsyncInvocation {
  // The order of submission; the catalog gives it.
  uint64_t sequence = 0;
  InvocationRequest request;
  FunctionId function;      // zero once the function was removed
  Duration submitted_at{};  // since the Unix epoch
  // How often it was begun; above 0 after a restart: a worker ended while it ran.
  unsigned attempts = 0;
};

// What the scheduler learnt of a function, so that a restart does not forget it.
struct FunctionStatistics {
  TenantId tenant;
  FunctionId function;
  Duration mean_execution{};
  Duration mean_interarrival{};
  Duration mean_cold_start{};
  uint64_t executions = 0;
  uint64_t arrivals = 0;
  uint64_t cold_starts = 0;
  // The same of its CPU variant.
  Duration mean_host_execution{};
  Duration mean_host_cold_start{};
  uint64_t host_executions = 0;
  uint64_t host_cold_starts = 0;

  bool operator==(const FunctionStatistics&) const = default;
};

// What was measured of a pipeline function.
struct PipelineProfileRecord {
  TenantId tenant;
  FunctionId function;
  uint64_t revision = 0;  // that it is of
  std::string profile;    // profile.json

  bool operator==(const PipelineProfileRecord&) const = default;
};

// What a worker reads when it starts.
struct Snapshot {
  std::vector<FunctionSpec> functions;  // in order of id
  std::vector<FunctionStatistics> statistics;
  std::vector<PipelineProfileRecord> profiles;
  uint64_t pending = 0;  // asynchronous invocations without a result
};

}  // namespace lambent::catalog
