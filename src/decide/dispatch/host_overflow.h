// HostOverflow: functions that run on either processor: which of their invocations leave the GPUs'
// queue for the host, what is learnt of runs there, and which functions may use GPUs at all. Owned
// by Dispatcher, on the thread that handles events.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/state_archive.h"
#include "core/base/time.h"
#include "decide/dispatch/options.h"
#include "decide/dispatch/pool_scheduler.h"
#include "decide/dispatch/queues.h"
#include "decide/dispatch/run_list.h"
#include "decide/scheduling/hybrid.h"

namespace lambent::dispatch {

class HostOverflow {
 public:
  HostOverflow(const DispatchOptions& options, scheduling::Flows& flows,
               scheduling::Tenants& tenants, Queues& queues, PoolScheduler& gpus,
               const scheduling::Fleet& host);

  // Whether anything here could ever serve it.
  bool may_wait(const scheduling::Flow& flow) const;
  // Whether it uses a GPU, and may run on the host's processors instead.
  bool may_go_to_host(const scheduling::Flow& flow) const {
    return flow.has_cpu_variant && options_.hybrid.rule != scheduling::HybridRule::kOff;
  }
  // What the GPUs' policy may run of it at once: none if only the host serves it.
  unsigned gpu_concurrency_of(const scheduling::Flow& flow) const {
    return concurrency_of(flow, false);
  }
  // A function was registered or removed, or changes.
  void add_function(const scheduling::Flow& flow);
  void remove_function(const scheduling::Flow& flow);
  // HybridRule::kTopShare: chooses which functions only the host serves, if a speed-up may have
  // changed since the last time.
  void rank_functions(Instant now) {
    if (ranks_stale_ && !queues_.waiting_variants().empty()) rank_again(now);
  }

  // The invocation that goes to the host now, if any does; none if nothing `may_go`.
  std::optional<scheduling::HostChoice> choose(bool may_go, Instant now);
  // When time by itself may send something to the host.
  Instant ask_again() const { return ask_again_; }

  // It was given a place on a GPU, or its start there is tried again; warm: in an idle sandbox.
  void dispatched_to_gpu(InvocationSlot slot, bool warm, Instant now);
  void expect_end(InvocationSlot slot, bool warm, Instant now);
  // The one of the two that is told of here is the other now: they are in one sandbox.
  void hand_on(InvocationSlot from, InvocationSlot to);
  // It is over, or waits again.
  void leave(InvocationSlot slot);
  // How long the handler of this one took.
  void learn_run(const PendingInvocation& invocation, Duration execution, Instant now);
  // It failed on the host: the function keeps away from there for a while. Runs dispatched before
  // the last failure was noted belong to the same incident.
  void note_failure(const PendingInvocation& invocation, Instant now);
  void note_success(const PendingInvocation& invocation);
  // The GPU is not healthy any more.
  void note_unhealthy(uint32_t device, Instant now) { unhealthy_since_[device] = now; }

  void archive(StateArchive& archive);
  // What is not written because it follows from the rest.
  void find_again();

 private:
  void rank_again(Instant now);
  unsigned concurrency_of(const scheduling::Flow& flow, bool outside_top_share) const;
  unsigned reserved() const;
  std::vector<scheduling::GpuRun> runs_on_gpus() const;
  bool ranks() const { return options_.hybrid.rule == scheduling::HybridRule::kTopShare; }

  const DispatchOptions& options_;
  scheduling::Flows& flows_;
  scheduling::Tenants& tenants_;
  Queues& queues_;
  PoolScheduler& gpus_;
  const scheduling::Fleet& host_;
  bool ranks_stale_ = false;              // a speed-up may have changed
  unsigned functions_without_gpu_ = 0;    // that are registered
  RunList gpu_runs_;                      // dispatched to a GPU and not over
  std::vector<Instant> unhealthy_since_;  // by GPU: when it was last found not to be healthy
  Instant ask_again_ = kNever;
};

}  // namespace lambent::dispatch
