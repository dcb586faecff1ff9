// Policy: chooses whose invocation is dispatched next. Pure: it sees a view and a time, knows no
// clock, lock or file; called by dispatch on the loop thread, by the simulator and by tests.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/state_archive.h"
#include "core/base/time.h"
#include "decide/scheduling/fleet.h"
#include "decide/scheduling/flow.h"
#include "decide/scheduling/tenants.h"
#include "decide/scheduling/wait_reason.h"

namespace lambent::scheduling {

// What a policy may look at. Dispatch changes it first and then tells the policy.
struct View {
  const Flows& flows;
  const Fleet& fleet;
  const Tenants& tenants;

  const Flow& flow(FunctionId function) const { return flows[function.value]; }
  // Which quota of its tenant keeps the flow from starting one more; kNone: none does. No policy
  // dispatches a flow that is held, and none lets it hold up others.
  WaitReason hold_of(FunctionId function) const { return tenants.hold_of(flow(function)); }
};

// Dispatch the oldest invocation of this flow there, or nothing, and why.
struct Decision {
  bool dispatch = false;
  FunctionId function;
  Place place;
  WaitReason reason = WaitReason::kNone;
  // When time by itself could change the answer.
  Instant wake_at = kNever;

  static Decision to(FunctionId function, Place place) { return {true, function, place}; }
  static Decision nothing(WaitReason reason, Instant wake_at = kNever) {
    return {false, {}, {}, reason, wake_at};
  }
};

// Whether a flow is served, as users see it.
enum class FlowState {
  kInactive,   // nothing to do, and its grace period is over
  kActive,     // has work, or is empty and expected back soon
  kThrottled,  // too far ahead of the others
};
std::string_view name_of(FlowState state);

struct FlowStatus {
  FlowState state = FlowState::kInactive;
  Duration virtual_time{};
  Duration global{};  // the least of its tenant's flows with work
  // When its turn is due, under a policy that orders those that wait by that; else kNever.
  Instant due = kNever;
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string_view name() const = 0;
  // What the policy needs the devices to be, whatever was chosen for them.
  virtual void adapt(FleetOptions&) const {}

  // The flow's limits or counts changed in another way than below: (un)registered, invocations
  // taken out of its queue.
  virtual void flow_changed(const View& view, FunctionId function, Instant now) = 0;
  virtual void enqueued(const View& view, FunctionId function, Instant now) = 0;
  virtual void dispatched(const View& view, FunctionId function, Instant now) = 0;
  // One more of the flow has joined a sandbox of it that is at work, without a decision and without
  // a token more. The one before it in that sandbox began so long ago: for no more than that, and
  // no more than one takes, the sandbox is at work longer.
  virtual void joined(const View& view, FunctionId function, Duration /*since_last*/, Instant now) {
    flow_changed(view, function, now);
  }
  // An invocation is over, however it ended; its execution time has been learnt.
  virtual void finished(const View& view, FunctionId function, Instant now) = 0;

  // A sandbox of the flow is ready, came to rest, was stopped or is gone, or memory of an idle one
  // was moved: for policies that keep track of where a flow could go and what that takes.
  virtual void places_changed(const View&, FunctionId, Instant) {}

  // Devices became healthy or ceased to be: what could run somewhere, and where it is warm, may be
  // another matter now for all flows that use a GPU.
  virtual void health_changed(const View&, Instant) {}

  virtual Decision decide(const View& view, Instant now) = 0;
  // Appends flows that wait, those first that are likely to be dispatched first, at most so many.
  // Their memory is fetched ahead. Changes no decision.
  virtual void look_ahead(const View& view, size_t most, std::vector<FunctionId>& out) = 0;

  // Why the first in this flow's queue is not running. Cheap: asked for each that waits.
  virtual WaitReason why_waiting(const View& view, FunctionId function) const = 0;
  virtual FlowStatus status(const View& view, FunctionId function, Instant now) const = 0;

  // How long a flow that has just become empty stays active: its sandbox and its memory on the
  // device go after those of inactive flows.
  virtual Duration grace(const View&, FunctionId) const { return {}; }
  // The least virtual time of those with work: of tenants where there are several, else of flows.
  virtual Duration global_virtual_time() const { return {}; }
  // What the tenant with this slot was charged, by its weight; nothing where that orders none.
  virtual Duration tenant_virtual_time(uint32_t) const { return {}; }
  // How often work conservation dispatched a throttled flow.
  virtual uint64_t conserving_dispatches() const { return 0; }
  // False: a sandbox is stopped after its one invocation.
  virtual bool keeps_sandboxes() const { return true; }
  // Whether it places functions that take several devices together: they are refused by those that
  // bind functions to devices of their own.
  virtual bool places_gangs() const { return true; }
  // Whether sandboxes may be started for no call yet, wherever there is room.
  virtual bool keeps_instances() const { return keeps_sandboxes(); }
  // True: a sandbox's memory is moved off the device after each invocation, in the background.
  virtual bool moves_off_after_run() const { return false; }

  // All that the next decision depends on beside the view and the options. A policy restored from
  // it decides as the one that was saved; the journal stands on that.
  virtual void archive(StateArchive& archive) = 0;
  // The part that is added where tenants matter (Tenants::matter).
  virtual void archive_tenants(StateArchive&) {}
};

}  // namespace lambent::scheduling
