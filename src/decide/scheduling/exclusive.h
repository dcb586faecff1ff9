// Exclusive: each function has devices of its own, and one that has too few takes one from the one
// with most (KaaS, arXiv 2212.08146, section 4.1.4). See policy.h for who calls it.
#pragma once

#include <optional>
#include <vector>

#include "decide/scheduling/indexed_heap.h"
#include "decide/scheduling/policy.h"

namespace lambent::scheduling {

// The devices of a function are its pool. A request that its pool cannot serve at once looks for
// one more device: one without an owner; else one of the largest pool, of equals that which lost a
// device least recently, but only if that pool is larger than its own. A device that does nothing
// changes hands at once, a busy one when the run on it is over. A request of a function whose pool
// is among the largest waits for its own devices.
//
// Where the paper is silent:
// - *A device on its way* belongs to the new pool at once, and cannot be taken away again before it
//   has served one request there.
// - *A request asks once*, when it comes. A function without any device asks again until it gets
//   one, the longest waiting first, for no other would serve it; and a device without an owner
//   goes to the one that waits longest.
// - *Which busy device* is taken of a pool: the one whose run began first.
// - *A pool loses a device* also when its worker is gone (it idled for too long, it crashed).
//
// A device has one worker, and does one thing at a time: the fleet is adapted to that, memory does
// not move, and D has no meaning. A pool has as many devices as its function's max_concurrency at
// most.
//
// Cost: each decision looks at every device.
class ExclusivePolicy final : public Policy {
 public:
  std::string_view name() const override { return "exclusive"; }
  void adapt(FleetOptions& options) const override;
  void flow_changed(const View& view, FunctionId function, Instant now) override;
  void enqueued(const View& view, FunctionId function, Instant now) override;
  void dispatched(const View& view, FunctionId function, Instant now) override;
  void finished(const View& view, FunctionId function, Instant now) override;
  void places_changed(const View& view, FunctionId function, Instant now) override;
  Decision decide(const View& view, Instant now) override;
  // Memory does not move: there is none to fetch.
  void look_ahead(const View&, size_t, std::vector<FunctionId>&) override {}
  WaitReason why_waiting(const View& view, FunctionId function) const override;
  FlowStatus status(const View& view, FunctionId function, Instant now) const override;
  // Which device is whose follows from requests.
  bool keeps_instances() const override { return false; }
  bool places_gangs() const override { return false; }
  void archive(StateArchive& archive) override;

 private:
  static constexpr size_t kLookAhead = 16;

  // Whose a device is.
  struct Holding {
    bool owned = false;
    bool claimed = false;  // for a request that has not begun on it
    FunctionId owner;
  };
  struct Pool {
    uint32_t size = 0;      // devices, claimed ones included
    uint32_t claims = 0;    // of these
    uint64_t shrunken = 0;  // when it lost one last, counted; 0: never
  };

  Pool& pool(FunctionId function);
  void follow(const View& view);
  void index(const View& view, FunctionId function);
  bool serves_at_once(const View& view, FunctionId function) const;
  bool claim_unowned(const View& view, FunctionId function);
  bool claim_from_largest(const View& view, FunctionId function);
  void claim(const View& view, uint32_t device, FunctionId function);
  void release(const View& view, uint32_t device);
  void give_back(const View& view, FunctionId function);
  void serve_those_without_device(const View& view);
  bool could_hold(const View& view, uint32_t device, FunctionId function) const;
  std::optional<SandboxSlot> worker_on(const View& view, uint32_t device) const;

  std::vector<Holding> holdings_;  // by device
  std::vector<Pool> pools_;        // by FunctionId
  uint64_t shrinks_ = 0;
  // Flows that could use one more device, by the arrival of their oldest; those that have none.
  IndexedHeap<uint64_t> wanting_;
  IndexedHeap<uint64_t> without_device_;
  std::optional<uint32_t> chosen_;       // the device of the decision that is being carried out
  std::vector<FunctionId> passed_over_;  // while looking
};

}  // namespace lambent::scheduling
