// PoolScheduler: a policy, and the fleet that it decides about. Owned by DevicePool, whose parts
// change the fleet and then tell the policy; on the thread that handles events.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "decide/dispatch/action_log.h"
#include "decide/scheduling/fleet.h"
#include "decide/scheduling/policy.h"

namespace lambent::dispatch {

// Adds to each message to the policy the view and the instant of the event that is handled.
class PoolScheduler {
 public:
  // `flows`, `tenants` and `log` outlive it.
  PoolScheduler(scheduling::FleetOptions options, std::unique_ptr<scheduling::Policy> policy,
                const scheduling::Flows& flows, const scheduling::Tenants& tenants,
                const ActionLog& log)
      : flows_(flows),
        tenants_(tenants),
        log_(log),
        fleet_(std::move(options)),
        policy_(std::move(policy)) {}

  scheduling::Fleet& fleet() { return fleet_; }
  const scheduling::Fleet& fleet() const { return fleet_; }
  const scheduling::Policy& policy() const { return *policy_; }
  scheduling::View view() const { return {flows_, fleet_, tenants_}; }

  scheduling::Decision decide() { return policy_->decide(view(), log_.now()); }
  void look_ahead(size_t most, std::vector<FunctionId>& out) {
    policy_->look_ahead(view(), most, out);
  }

  // What Policy calls by these names.
  void flow_changed(FunctionId function) { policy_->flow_changed(view(), function, log_.now()); }
  void enqueued(FunctionId function) { policy_->enqueued(view(), function, log_.now()); }
  void dispatched(FunctionId function) { policy_->dispatched(view(), function, log_.now()); }
  void joined(FunctionId function, Duration since_last) {
    policy_->joined(view(), function, since_last, log_.now());
  }
  bool is_throttled(FunctionId function) const {
    return policy_->status(view(), function, log_.now()).state == scheduling::FlowState::kThrottled;
  }
  void finished(FunctionId function) { policy_->finished(view(), function, log_.now()); }
  void health_changed() { policy_->health_changed(view(), log_.now()); }
  void places_changed(scheduling::SandboxSlot slot) {
    places_changed(fleet_.sandbox(slot).function);
  }
  void places_changed(FunctionId function) {
    policy_->places_changed(view(), function, log_.now());
  }

  void archive(StateArchive& archive) {
    fleet_.archive(archive);
    policy_->archive(archive);
  }
  void archive_tenants(StateArchive& archive) { policy_->archive_tenants(archive); }

 private:
  const scheduling::Flows& flows_;
  const scheduling::Tenants& tenants_;
  const ActionLog& log_;
  scheduling::Fleet fleet_;
  std::unique_ptr<scheduling::Policy> policy_;
};

}  // namespace lambent::dispatch
