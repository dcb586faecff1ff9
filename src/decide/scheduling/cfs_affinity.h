// CFS-Affinity: the client that has had the least GPU time goes first, on the device where its
// memory is if it can (KaaS, arXiv 2212.08146, section 4.1.4). See policy.h for who calls it.
#pragma once

#include <optional>
#include <vector>

#include "decide/scheduling/indexed_heap.h"
#include "decide/scheduling/policy.h"

namespace lambent::scheduling {

struct CfsOptions {
  // What a device without affinity costs, in mean executions of the flow.
  double penalty = 10;
};

// Each flow has a runtime: the GPU time that it has had, divided by its weight. For a device with a
// free token every flow that waits is given its runtime, and `penalty` times its mean execution
// more if its memory is not there; the least goes.
//
// Where the paper is silent:
// - *Affinity* is to every device on which an idle sandbox of the flow has its memory.
// - *Accumulated GPU time* is that of executions, without cold starts and moves of memory. What
//   runs is charged the mean beforehand; when it is over, what it took.
// - *A flow that had no work* starts at the least runtime of those that have, if it is behind it,
//   as a task that wakes up does in Linux: idle time earns nothing.
// - *Average request latency* is the mean execution: time in queues would punish those who wait.
// - *Weights* are as everywhere in Lambent: twice the weight, half the charge.
// - *A device becomes idle* where it has a free token. A flow that is warm elsewhere gets a second
//   sandbox only on a device that has nothing to do, as under every policy here.
//
// Cost: a few updates of 4-ary heaps per event; a decision looks at the top of two heaps for each
// device, and past at most kLookAhead flows that do not fit (all, on a device with nothing to do).
class CfsAffinityPolicy final : public Policy {
 public:
  explicit CfsAffinityPolicy(CfsOptions options) : options_(options) {}

  // It knows no second sandbox that is not worth a start: a client that has nothing is served.
  void adapt(FleetOptions& options) const override { options.second_grace_period = 0; }
  std::string_view name() const override { return "cfs-affinity"; }
  void flow_changed(const View& view, FunctionId function, Instant now) override;
  void enqueued(const View& view, FunctionId function, Instant now) override;
  void dispatched(const View& view, FunctionId function, Instant now) override;
  void finished(const View& view, FunctionId function, Instant now) override;
  void places_changed(const View& view, FunctionId function, Instant now) override;
  Decision decide(const View& view, Instant now) override;
  void look_ahead(const View& view, size_t most, std::vector<FunctionId>& out) override;
  WaitReason why_waiting(const View& view, FunctionId function) const override;
  // The virtual time of a flow is its runtime, the global one the least of those with work.
  FlowStatus status(const View& view, FunctionId function, Instant now) const override;
  Duration global_virtual_time() const override { return least_; }
  bool places_gangs() const override { return false; }
  void archive(StateArchive& archive) override;

 private:
  static constexpr size_t kLookAhead = 16;

  struct Client {
    Duration runtime{};
    // Of it, what is charged for invocations that are not over, and how many these are.
    Duration charged{};
    uint32_t running = 0;
    Duration executed{};         // of Flow::execution, what the runtime has in it
    std::vector<uint32_t> near;  // devices with affinity, where it is in their heaps
  };
  // Who is first on a device, and with how much.
  struct First {
    uint32_t function = 0;
    Duration weighted{};
  };

  Client& client(FunctionId function);
  void settle(const Flow& flow, Client& client);
  void index(const View& view, FunctionId function);
  void put(const Flow& flow, FunctionId function);
  void take(FunctionId function);
  void find_near(const View& view, FunctionId function);
  void advance_least();
  Duration penalty_of(const Flow& flow) const;
  std::optional<First> first_on(uint32_t device) const;
  std::optional<Decision> decide_on(const View& view, uint32_t device, WaitReason& reason);

  CfsOptions options_;
  Duration least_{};
  std::vector<Client> clients_;  // by FunctionId
  // Flows with pending or running work, by runtime.
  IndexedHeap<Duration> working_;
  // Flows that may start one more invocation: by runtime and penalty, and only by runtime for each
  // device to which they have affinity.
  IndexedHeap<Duration> anywhere_;
  std::vector<IndexedHeap<Duration>> near_;
  std::vector<uint32_t> now_near_;  // while an affinity is looked up
  std::vector<FunctionId> passed_over_;
};

}  // namespace lambent::scheduling
