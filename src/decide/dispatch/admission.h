// Admission: which invocations may wait: it refuses new ones, and rejects those that may wait no
// longer. Owned by Dispatcher, on the thread that handles events.
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "core/base/result.h"
#include "core/base/state_archive.h"
#include "decide/dispatch/action_log.h"
#include "decide/dispatch/device_pools.h"
#include "decide/dispatch/host_overflow.h"
#include "decide/dispatch/queue_control.h"
#include "decide/dispatch/queues.h"

namespace lambent::dispatch {

class Admission {
 public:
  Admission(const DispatchOptions& options, scheduling::Flows& flows,
            const scheduling::Tenants& tenants, Queues& queues, const HostOverflow& overflow,
            DevicePools& pools, ActionLog& log)
      : options_(options),
        flows_(flows),
        tenants_(tenants),
        queues_(queues),
        overflow_(overflow),
        pools_(pools),
        log_(log),
        control_(flows, queues, pools, log) {}

  void submit(const InvocationSubmitted& event);
  void cancel(const InvocationCancelled& event);

  // Of invocations that wait.
  void reject(InvocationSlot slot, Error error) { reject(slot, std::move(error), {}, {}); }
  // One whose time to wait is over.
  void give_up(InvocationSlot slot);
  void reject_all(FunctionId function, const Error& error);
  // What waits of a function that has changed, if nothing here can serve it any more.
  void reject_unservable(FunctionId function);
  // One that lost its place: a function that is gone or a worker that stops lets nothing wait.
  void reject_unless_it_may_wait(InvocationSlot slot);

  // From the start of a drain on only asynchronous invocations may wait.
  void start_drain() { draining_ = true; }
  bool draining() const { return draining_; }
  void reject_synchronous(FunctionId function);

  QueueControl& control() { return control_; }

  void archive(StateArchive& archive) { archive.field(draining_); }

 private:
  std::optional<Error> refusal_of(const InvocationSubmitted& event) const;
  // Why the invocation of this flow can never run as things are.
  std::optional<Error> never_served(const scheduling::Flow& flow) const;
  // Why a client would wait in vain for GPU time of its tenant.
  std::optional<scheduling::Refusal> hour_refusal_of(const InvocationSubmitted& event) const;
  void refuse(InvocationId id, Error error, Duration retry_after = {},
              std::string_view error_type = {});
  void refuse(InvocationId id, scheduling::Refusal refusal);
  void reject(InvocationSlot slot, Error error, Duration retry_after, std::string_view error_type);
  void note_shedding(FunctionId function);
  void tell_policy(FunctionId function);

  const DispatchOptions& options_;
  scheduling::Flows& flows_;
  const scheduling::Tenants& tenants_;
  Queues& queues_;
  const HostOverflow& overflow_;
  DevicePools& pools_;
  ActionLog& log_;
  QueueControl control_;
  bool draining_ = false;
};

}  // namespace lambent::dispatch
