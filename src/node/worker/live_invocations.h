// LiveInvocations: the invocations that were accepted and have no result yet, and the payload bytes
// that they hold. Pure; used by Intake, DispatchDriver and Completions on the loop thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/domain/invocation.h"
#include "core/domain/invocation_service.h"
#include "node/worker/backend.h"

namespace lambent::worker {

struct LiveInvocation {
  using Waiter = InvocationService::Callback<InvocationResult>;

  InvocationRequest request;
  FunctionId function;
  Bytes payload;          // the size that counts for it
  uint64_t revision = 0;  // that serves it, once it was started
  std::vector<Waiter> waiters;
  std::string idempotency_key;
  std::optional<HandlerAnswer> answer;
  SandboxId sandbox;
  bool is_whole_pipeline = false;  // a pipeline's, that dispatch serves
  bool reads_objects = false;      // a kernel function's: executors know what it needs
  bool has_mounts = false;         // what it mounts is here, as far as that was brought for it
  unsigned slo_ms = 0;             // of its function when it came; 0: that has none
  Duration waited_for_mounts{};    // until it was
  bool cancelled = false;          // by a request of its tenant, which ends it soon
  bool resumed = false;            // asynchronous, and perhaps an earlier worker ended under it
  bool attempt_noted = false;      // asynchronous, and the catalog counts that this worker began it

  // Of an asynchronous one.
  unsigned runs = 0;        // that ended before; it had failed in each
  unsigned put_off = 0;     // how often it could not run since the last one
  unsigned chain = 0;       // destinations that led to it
  Duration submitted_at{};  // since the Unix epoch
  Duration too_old_at{};    // the same: when it ends if it still waits; zero: it waits on
  bool too_old = false;     // it ends for that
};

// What becomes of one that was cancelled.
constexpr std::string_view kCancelledErrorType = "Invocation.Cancelled";
inline Error cancelled_error() { return {ErrorCode::kCancelled, "it was cancelled by a request"}; }
// And of one that waited for too long.
inline Error too_old_error() {
  return {ErrorCode::kDeadlineExceeded,
          "it waited until its event was older than asynchronous.max_age_s of its function"};
}

class LiveInvocations {
 public:
  // Its payload counts from now on.
  LiveInvocation& add(InvocationRequest request, FunctionId function, std::string idempotency_key,
                      LiveInvocation::Waiter waiter);
  // Null: it has its result, or there never was one.
  LiveInvocation* find(InvocationId id);
  const LiveInvocation* find(InvocationId id) const;
  // It must be there.
  LiveInvocation& at(InvocationId id);
  LiveInvocation take(InvocationId id);
  // Of a tenant, in no order, looking at `most` of all.
  std::vector<const LiveInvocation*> some(TenantId tenant, size_t most) const;
  // Its payload counts elsewhere from now on.
  void release_payload(LiveInvocation& live);

  // An asynchronous invocation is on its way into the catalog, from begin to end.
  void begin_arrival(FunctionId function, Bytes payload);
  void end_arrival(FunctionId function, Bytes payload);
  size_t arriving() const { return arriving_; }
  size_t arriving(FunctionId function) const;

  // That were accepted and have no result.
  size_t count(FunctionId function) const;
  // Those with some, each once.
  std::vector<FunctionId> functions() const;

  // Of all of them, those that arrive included.
  Bytes payloads() const { return payloads_; }
  Bytes payloads(FunctionId function) const;

 private:
  struct Counts {
    Bytes payloads;
    uint32_t arriving = 0;
    uint32_t live = 0;
  };
  Counts& counts(FunctionId function);

  std::unordered_map<InvocationId, LiveInvocation> live_;
  Bytes payloads_;
  size_t arriving_ = 0;
  std::vector<Counts> counts_;  // by FunctionId
};

}  // namespace lambent::worker
