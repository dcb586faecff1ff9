// What the catalog keeps besides functions: asynchronous invocations and learnt statistics. Values;
// made by the worker, used on any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/domain/access.h"
#include "core/domain/function.h"
#include "core/domain/invocation.h"
#include "core/domain/tenant.h"
#include "core/domain/version.h"

namespace lambent::catalog {

// An asynchronous invocation that was accepted and has no result yet.
struct AsyncInvocation {
  // The order of submission; the catalog gives it.
  uint64_t sequence = 0;
  InvocationRequest request;
  FunctionId function;      // zero once the function was removed
  Duration submitted_at{};  // since the Unix epoch
  // How often it was begun since its last run ended; above 0 after a restart: a worker ended while
  // it ran.
  unsigned attempts = 0;
  unsigned runs = 0;         // that ended; it has failed in each
  Duration due_at{};         // of the next one, since the Unix epoch; it may be over
  unsigned chain = 0;        // destinations that led to it
  std::string last_failure;  // why its last run failed; empty: it had none
};

// That it is tried again.
struct AsyncRetry {
  unsigned runs = 0;
  Duration due_at{};
  std::string last_failure = {};
};

// The asynchronous invocation that tells a function of the outcome of another.
struct AsyncSuccessor {
  InvocationId id = {};
  FunctionName name = {};
  FunctionId function = {};
  Duration submitted_at{};
  unsigned chain = 0;
  // Its payload, from that of the other one. Called on the catalog's thread.
  std::function<std::string(std::string_view)> payload = {};
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

// The last firing of a function's schedule.
struct FiringRecord {
  TenantId tenant;
  FunctionId function;
  std::string schedule;  // its name
  seconds due{};         // since the Unix epoch
  InvocationId invocation;

  bool operator==(const FiringRecord&) const = default;
};

// What is held against a GPU, and what the operator said of it; all else of it is read again.
struct DeviceRecord {
  std::string uuid;
  bool drained_by_operator = false;
  std::string operators_reason;
  std::string sickness;          // empty: nothing is held against it
  uint64_t errors = 0;           // of memory that ECC could not correct, as NVML told last
  uint64_t errors_accepted = 0;  // of them: so many the operator knows about
  bool repair_accepted = false;  // memory that could not be replaced: the operator knows

  bool operator==(const DeviceRecord&) const = default;
};

// A token, and what its secret is compared with.
struct TokenRecord {
  Token token;
  std::string secret_sha256;  // 32 bytes

  bool operator==(const TokenRecord&) const = default;
};

// A secret as it is kept: sealed with the node's key.
struct SecretRecord {
  TenantId tenant;
  std::string name;
  std::string sealed;
  Duration changed_at{};  // since the Unix epoch

  bool operator==(const SecretRecord&) const = default;
};

// A deployment that was answered before it was done: a worker that finds one when it starts was
// ended meanwhile.
struct DeploymentRecord {
  FunctionSpec spec;  // as it will be
  bool creates = false;
  std::string failure;  // empty: it is under way

  bool operator==(const DeploymentRecord&) const = default;
};

// Who may use the node, and what they keep there.
struct AccessRecords {
  std::vector<Tenant> tenants;      // in order of id; the default one is always there
  std::vector<TokenRecord> tokens;  // in order of creation; expired ones as well
  std::vector<SecretRecord> secrets;
};

// The GPU time that a tenant used in the hour before it was saved.
struct GpuTimeRecord {
  struct Used {
    Duration at{};  // since the Unix epoch
    Duration time{};

    bool operator==(const Used&) const = default;
  };
  TenantId tenant;
  std::vector<Used> used;  // the oldest first

  bool operator==(const GpuTimeRecord&) const = default;
};

// What a worker reads when it starts.
struct Snapshot {
  std::vector<FunctionSpec> functions;  // in order of id; versions as well
  std::vector<Alias> aliases;
  std::vector<FunctionSpec> revisions;  // of each function the last ones, in order
  std::vector<DeploymentRecord> deployments;
  std::vector<FunctionStatistics> statistics;
  std::vector<GpuTimeRecord> gpu_times;
  std::vector<PipelineProfileRecord> profiles;
  std::vector<FiringRecord> firings;
  std::vector<DeviceRecord> devices;  // in order of uuid; those of GPUs that went as well
  uint64_t pending = 0;               // asynchronous invocations without a result
};

}  // namespace lambent::catalog
