// PipelineRequests: the requests of pipelines that have no result yet: how each came, when an
// instance was given it, and where its time goes. Owned by PipelineHost, on the loop thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "core/base/time.h"
#include "core/domain/invocation.h"
#include "decide/slice_scheduling/slice_dispatcher.h"
#include "decide/slice_scheduling/slice_wait.h"
#include "node/worker/pipeline_trace.h"

namespace lambent::worker {

class PipelineRequests {
 public:
  struct Live {
    FunctionId function;
    FunctionName name;
    uint64_t revision = 0;
    bool within_run = false;  // as in InvocationRequest
    std::string payload;
    Instant submitted{};
    std::optional<Instant> begun;  // the last time
    bool is_given = false;         // to an instance; otherwise it is queued
    // What its function had waited for when it was queued last, and what it waited for before.
    slice_scheduling::WaitAccounting::Totals mark;
    slice_scheduling::Waits waits;
    StartClass start = StartClass::kWarm;
    DeviceId device;
    std::optional<InvocationResult> end;  // its job is over
    std::shared_ptr<const JobRecord> job;
  };

  // Both outlive it.
  PipelineRequests(const Clock& clock, const slice_scheduling::SliceDispatcher& dispatcher)
      : clock_(clock), dispatcher_(dispatcher) {}

  // It is queued. Takes the payload out of `request`.
  void add(InvocationRequest& request, const FunctionSpec& spec);
  bool has(InvocationId id) const { return live_.contains(id); }
  Live& at(InvocationId id) { return live_.at(id); }
  // It must be there.
  Live take(InvocationId id);
  size_t size() const { return live_.size(); }

  // Dispatch has decided: what functions wait for may be another.
  void look(Instant now) { waits_.look(dispatcher_.world(), now); }
  // It waits for an instance, or has one.
  void note_queued(Live& live);
  void note_given(Live& live);

  // Where its time went until now.
  RequestRecord record_of(InvocationId id, const Live& live) const;
  std::optional<RequestRecord> explain(InvocationId id) const;
  // Of one that has ended; the last are remembered.
  void keep(RequestRecord record) { traces_.keep(std::move(record)); }
  // Of one that is here or remembered. NOT_FOUND.
  Result<RequestRecord> record(TenantId tenant, InvocationId id) const;

 private:
  const Clock& clock_;
  const slice_scheduling::SliceDispatcher& dispatcher_;
  std::unordered_map<InvocationId, Live> live_;
  slice_scheduling::WaitAccounting waits_;
  RequestTraces traces_;
};

}  // namespace lambent::worker
