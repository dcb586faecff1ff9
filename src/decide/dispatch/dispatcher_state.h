// Dispatcher::State: the parts of the dispatcher, and which of them an event concerns. Internal to
// the dispatcher*.cc files; on the thread that handles events.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "decide/dispatch/action_log.h"
#include "decide/dispatch/admission.h"
#include "decide/dispatch/device_pools.h"
#include "decide/dispatch/dispatcher.h"
#include "decide/dispatch/function_changes.h"
#include "decide/dispatch/gangs.h"
#include "decide/dispatch/host_overflow.h"
#include "decide/dispatch/kept_sandboxes.h"
#include "decide/dispatch/memory_pressure.h"
#include "decide/dispatch/min_instances.h"
#include "decide/dispatch/outcomes.h"
#include "decide/dispatch/placements.h"
#include "decide/dispatch/queues.h"
#include "decide/dispatch/starts_ahead.h"
#include "decide/dispatch/tenant_room.h"

namespace lambent::dispatch {

// A part knows only parts that stand above it here.
struct Dispatcher::State {
  State(DispatchOptions options_in, std::unique_ptr<scheduling::Policy> policy,
        std::unique_ptr<scheduling::Policy> host_policy);

  void handle(const Event& event, Instant now, std::vector<Action>& out);

  scheduling::WaitReason why_waiting(FunctionId function);
  std::optional<Explanation> explain(InvocationId id, Instant now);
  std::vector<TokenHolder> token_holders(Instant now) const;
  std::vector<TenantStatus> tenant_status(Instant now) const;
  void archive(StateArchive& archive);

  DispatchOptions options;
  scheduling::Flows flows;
  scheduling::Tenants tenants;
  ActionLog log;
  Queues queues{options, flows};
  DevicePools pools;
  HostOverflow overflow{options, flows, tenants, queues, pools.gpu.scheduler(), pools.host.fleet()};
  Admission admission{options, flows, tenants, queues, overflow, pools, log};
  TenantRoom room{options, flows, tenants, pools, log};
  Placements placements{flows, tenants, queues, overflow, admission, pools, room, log};
  Gangs gangs{flows, tenants, admission, pools, placements, log};
  MinInstances instances{options, flows, queues, admission, pools, room, placements, log};
  Outcomes outcomes{options,   flows, tenants,    queues,    overflow,
                    admission, pools, placements, instances, log};
  MemoryPressure pressure{options, flows, pools.gpu, log};
  KeptSandboxes kept{flows, admission, pools, room, placements, log};
  StartsAhead ahead{options,   flows,      tenants,  queues, admission,
                    pools.gpu, placements, pressure, log};
  FunctionChanges functions{options,   flows, tenants,    queues,    overflow,
                            admission, pools, placements, instances, log};

 private:
  void on(const FunctionRegistered& event) {
    functions.registered(event);
    gangs.registered(event.profile.id);
  }
  void on(const FunctionRemoved& event) { functions.removed(event); }
  void on(const InvocationSubmitted& event) { admission.submit(event); }
  void on(const InvocationCancelled& event) { admission.cancel(event); }
  void on(const SandboxReady& event) {
    event.kept_of == FunctionId{} ? placements.sandbox_ready(event) : kept.take(event);
  }
  void on(const SandboxExited& event) { outcomes.sandbox_exited(event); }
  void on(const InvocationFinished& event) { outcomes.finished(event); }
  void on(const InvocationUndelivered& event) { outcomes.undelivered(event); }
  void on(const CallForeseen& event) { ahead.foresee(event); }
  void on(const SandboxCrowdedOut& event);
  void on(const DeviceReading& event);
  void on(const DeviceTaken& event);
  void on(const TimerFired& event);
  void on(const DrainStarted& event);
  void on(const MemoryMoved& event);
  void on(const MemoryWanted& event);
  void on(const TenantChanged& event);
  void on(const GpuTimeUsed& event);

  void decide(DevicePool& pool);
  void send_to_host();
  void relieve_gpus();
  void note_wait_reasons(bool of_standing_heads);
  void arm_timer();
  std::optional<Duration> most_left(scheduling::SandboxSlot slot, Instant now) const;
  bool each_sandbox_has_its_own_invocations();
  void archive_tenants(StateArchive& archive);
  void find_tenants();
  // What a snapshot has beyond what all have.
  struct SnapshotParts {
    bool tenants = false;
    bool queues = false;
    bool versions = false;
    bool instances = false;
    bool sharing = false;
    bool gangs = false;
    bool any() const { return tenants || queues || versions || instances || sharing || gangs; }
  };
  void archive_parts(StateArchive& archive, SnapshotParts& parts);
  void archive_marks(StateArchive& archive, Instant mark, SnapshotParts& parts);
  void archive_queues(StateArchive& archive);
  void archive_versions(StateArchive& archive);
  void archive_instances(StateArchive& archive);
  void archive_sharing(StateArchive& archive);
  void archive_gangs(StateArchive& archive);

  Instant armed_ = kNever;
};

}  // namespace lambent::dispatch
