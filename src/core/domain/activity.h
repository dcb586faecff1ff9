// Activity: what a worker does now and did recently, as the dashboard shows it. Values, and the
// service that tells them; on the loop thread.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/domain/function.h"
#include "core/domain/invocation.h"
#include "core/domain/latency_histogram.h"

namespace lambent {

// The last invocations of a tenant that are remembered, and of how many tenants: when one more has
// invocations, those of the tenant that had none for the longest time are forgotten.
constexpr size_t kRecentPerTenant = 2'048;
constexpr size_t kRecentTenants = 64;
constexpr size_t kRecentError = 256;  // bytes that are kept of an error

// An invocation that has its outcome, or a run of one that is tried again.
struct EndedInvocation {
  uint64_t sequence = 0;  // counts up within its tenant, from 1
  InvocationId id;
  std::string function;
  std::string version;  // a number, or "$LATEST"
  Outcome outcome = Outcome::kSucceeded;
  std::string error_type;  // empty on success
  std::string error;       // the first kRecentError bytes of what was wrong
  StartClass start = StartClass::kWarm;
  Phases phases;
  std::string wait_reason;         // in a word of docs/scheduling.md; empty: nothing held it back
  std::optional<DeviceId> device;  // none: it had no place of its own
  std::vector<DeviceId> beside;    // its other devices, if its function takes several
  Duration ended{};                // since the Unix epoch
  std::optional<bool> in_time;     // none: its function has no SLO
  Bytes device_memory_peak;
  Bytes host_memory_peak;
  unsigned run = 0;                  // of an asynchronous one: which of its runs this was
  std::optional<Duration> again_in;  // it was tried again after so long; none: this is its outcome
};

struct EndedQuery {
  std::string function = {};  // empty: all
  uint64_t after = 0;         // those with a higher sequence
  uint64_t before = 0;        // and a lower one; zero: all
  size_t limit = 500;
};

// An invocation that has no outcome yet.
struct LiveInvocationStatus {
  InvocationId id;
  std::string function;
  std::string phase;  // "queued", "starting", "running"; "waiting": to be tried again
  Duration waited{};
  std::string wait_reason;
  unsigned run = 0;          // of an asynchronous one: which of its runs this is or will be
  Duration due_in{};         // of one that waits to be tried again
  std::string last_failure;  // the same: why its last run failed
};

// A run that holds a concurrency slot of a GPU.
struct GpuRun {
  DeviceId device;
  std::optional<std::string> function;  // none: it is another tenant's
  std::optional<InvocationId> invocation;
  Duration held{};
};

// What a function does and did, since the worker began.
struct FunctionActivity {
  std::string name;
  FunctionKind kind = FunctionKind::kHandler;
  bool serves_model = false;  // an HTTP function whose program is our model server
  uint64_t queued = 0;
  uint64_t running = 0;
  uint64_t sandboxes = 0;
  // By how they ended: of those that ran, by their start; failed ones are counted there, too.
  uint64_t cold = 0;
  uint64_t gpu_cold = 0;
  uint64_t warm = 0;
  uint64_t failed = 0;
  uint64_t refused = 0;
  uint64_t in_time = 0;  // of those with an SLO
  uint64_t late = 0;
  Duration p50{}, p95{}, p99{};  // of those that ran, queue included; zero: none did
  // By how much more of the GPUs it had than its tenant's function with the least, by their
  // weights; zero while it has nothing to do.
  Duration ahead{};

  bool operator==(const FunctionActivity&) const = default;
};

// The nodes of a workflow, and which waits for which, by their places.
struct FunctionGraph {
  struct Node {
    std::string name;
    std::string function;
    bool for_each = false;
    bool conditional = false;
  };
  std::vector<Node> nodes;
  std::vector<std::pair<uint32_t, uint32_t>> edges;
};

class ActivityService {
 public:
  virtual ~ActivityService() = default;

  // The newest of those that are asked for, the newest first.
  virtual std::vector<EndedInvocation> ended(TenantId tenant, const EndedQuery& query) const = 0;
  // NOT_FOUND: it is not remembered, or there never was one.
  virtual Result<EndedInvocation> ended(TenantId tenant, InvocationId id) const = 0;
  // Those that waited longest first. With thousands of them, of as many as can be looked at.
  virtual std::vector<LiveInvocationStatus> live(TenantId tenant, size_t limit) const = 0;
  virtual std::vector<GpuRun> gpu_runs(TenantId tenant) const = 0;
  // In order of name, after `after` (empty: from the start).
  virtual std::vector<FunctionActivity> functions(TenantId tenant, const std::string& after,
                                                  size_t limit) const = 0;
  // NOT_FOUND.
  virtual Result<FunctionActivity> function(const FunctionName& name) const = 0;
  virtual LatencyHistogram latencies(const FunctionName& name) const = 0;
  // NOT_FOUND; FAILED_PRECONDITION: it is no workflow.
  virtual Result<FunctionGraph> graph(const FunctionName& name) const = 0;
};

}  // namespace lambent
