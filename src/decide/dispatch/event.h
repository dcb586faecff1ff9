// What can happen to dispatch: a closed set of events, each a value that can be journalled.
// Made by the worker, the simulator and tests; consumed by Dispatcher::handle.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/domain/function_limits.h"
#include "core/domain/invocation.h"

namespace lambent::dispatch {

// Every event and action describes its fields once, in fields(): hash, journal and traces follow
// from this. See field_visitor.h.

// What dispatch knows of a function: its limits, and what was learnt of it before a restart.
struct FunctionProfile {
  FunctionId id;
  TenantId tenant;
  uint64_t revision = 1;
  double weight = 1;
  unsigned max_concurrency = 1;
  Bytes device_memory;  // admission counts this much for each of its sandboxes; zero: no GPU
  Duration timeout{};
  // Whether the memory of its sandboxes can be moved off the device and back (MoveMemoryOut), and
  // then what that leaves behind (MoveDepth::kContext).
  bool memory_moves = true;
  bool checkpoints = false;
  // It can also run on the host's processors. How many times as long a run takes there as on the
  // GPU, as its owner says; zero: to be learnt.
  bool has_cpu_variant = false;
  double gpu_speedup = 0;
  // Learnt statistics; zero where nothing was learnt yet. A mean of starts of which no number is
  // known, as in journals of before it was kept, counts as one start.
  Duration mean_execution{};
  Duration mean_interarrival{};
  Duration mean_cold_start{};
  uint64_t cold_starts = 0;
  uint64_t completed = 0;
  // The same of its runs on the host.
  Duration mean_host_execution{};
  Duration mean_host_cold_start{};
  uint64_t host_cold_starts = 0;
  uint64_t completed_on_host = 0;
  // The limit of the host's memory of each of its sandboxes, on whatever device: what a tenant's
  // host_memory counts. Zero: not known, and not counted.
  Bytes host_memory;
  // How long a synchronous invocation may wait in its queue: zero: as the worker says;
  // Duration::max(): without this bound.
  Duration max_queue_time{};
  // The function whose account of service it is charged to as well, because it is a version of it;
  // zero: it has one of its own.
  FunctionId account;
  // How many of its sandboxes are to be ready before any call, and stay (min_instances.h).
  unsigned min_instances = 0;
  // After so long an idle sandbox beyond these is stopped; zero: as the worker says.
  Duration keep_alive{};
  // How many of its invocations one sandbox may have at once; zero: one.
  unsigned sandbox_concurrency = 0;
  // How many devices each of its sandboxes takes, all together or none, with device_memory of each.
  unsigned gpu_count = 1;

  bool has_sandbox_settings() const {
    return min_instances > 0 || keep_alive.count() > 0 || sandbox_concurrency > 0;
  }
  bool counts_starts() const { return cold_starts > 0 || host_cold_starts > 0; }

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("function", self.id);
    visit("tenant", self.tenant);
    visit("revision", self.revision);
    visit("weight", self.weight);
    visit("max_concurrency", self.max_concurrency);
    visit("device_memory", self.device_memory);
    visit("timeout", self.timeout);
    bool takes_several = self.gpu_count > 1;
    bool counts_starts = self.counts_starts();
    visit.bits("memory_moves,checkpoints,has_cpu_variant,takes_several,counts_starts",
               self.memory_moves, self.checkpoints, self.has_cpu_variant, takes_several,
               counts_starts);
    visit("mean_execution", self.mean_execution);
    visit("mean_interarrival", self.mean_interarrival);
    visit("mean_cold_start", self.mean_cold_start);
    visit("completed", self.completed);
    visit.only_if(self.has_cpu_variant, [&](auto& host) {
      host.within("gpu_speedup", self.gpu_speedup, 0.0, limits::kMostGpuSpeedup);
      host("mean_host_execution", self.mean_host_execution);
      host("mean_host_cold_start", self.mean_host_cold_start);
      host("completed_on_host", self.completed_on_host);
    });
    visit.template unless_zero<0>("host_memory", self.host_memory);
    visit.template unless_zero<1>("max_queue_time", self.max_queue_time);
    visit.template unless_zero<2>("account", self.account);
    // The last bit of an event's head; what comes later needs another way.
    visit.template part<3>(self.has_sandbox_settings(), [&](auto& sandboxes) {
      sandboxes("min_instances", self.min_instances);
      sandboxes("keep_alive", self.keep_alive);
      sandboxes("sandbox_concurrency", self.sandbox_concurrency);
    });
    visit.only_if(takes_several, [&](auto& gpus) { gpus("gpu_count", self.gpu_count); });
    visit.only_if(counts_starts, [&](auto& starts) {
      starts("cold_starts", self.cold_starts);
      starts("host_cold_starts", self.host_cold_starts);
    });
  }
};

// A function was deployed, changed (same id, higher revision: its sandboxes are retired) or removed
// (what it had queued is rejected).
struct FunctionRegistered {
  FunctionProfile profile;

  static constexpr std::string_view kName = "function registered";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    FunctionProfile::fields(self.profile, visit);
  }
};
struct FunctionRemoved {
  FunctionId function;

  static constexpr std::string_view kName = "function removed";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("function", self.function);
  }
};

struct InvocationSubmitted {
  InvocationId invocation;
  FunctionId function;
  bool asynchronous = false;  // may wait as long as it must
  // Its caller was told that it will run, or that what needs it will, so no bound of a queue
  // refuses it: there may be less room now than there was then, after a restart with other options.
  // A synchronous one like that has no client that waits for it: it waits as long as it must, too.
  bool acknowledged = false;
  // A call of a workflow: if a client waits, then for the workflow, and holds no connection for
  // this. It has the client's bound of time all the same.
  bool within_run = false;
  // It was refused before, told when to come again, and has waited for so long.
  bool promised = false;

  static constexpr std::string_view kName = "invocation submitted";
  // A client holds a connection for it, so that it may be refused for what it would wait.
  bool holds_connection() const { return !asynchronous && !acknowledged && !within_run; }

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("invocation", self.invocation);
    visit("function", self.function);
    visit.flags("asynchronous,acknowledged,within_run,promised", self.asynchronous,
                self.acknowledged, self.within_run, self.promised);
  }
};
// The outcome is not wanted any more; a queued one is dropped, a running one goes on.
struct InvocationCancelled {
  InvocationId invocation;

  static constexpr std::string_view kName = "invocation cancelled";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("invocation", self.invocation);
  }
};

// The sandbox asked for its first invocation.
struct SandboxReady {
  SandboxId sandbox;
  Duration sandbox_time{};
  Duration init_time{};
  // Of one that no StartSandbox was for: it was idle when the program before this one ended, and
  // lives on. Its function, or zero; its device, and the others (StartSandbox::beside); and where
  // its memory is, as the last MemoryMoved told. Its number is Dispatcher::next_sandbox(). Dispatch
  // has it from now on; where it does not know it afterwards, there is no place for it.
  FunctionId kept_of;
  DeviceId device;
  uint64_t beside = 0;
  bool memory_is_out = false;
  bool deep = false;  // with its context
  Bytes left;
  Bytes offloaded;

  static constexpr std::string_view kName = "sandbox ready";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("sandbox", self.sandbox);
    visit("sandbox_time", self.sandbox_time);
    visit("init_time", self.init_time);
    visit.template part<0>(self.kept_of != FunctionId{}, [&](auto& kept) {
      kept("kept_of", self.kept_of);
      kept("device", self.device);
      kept("beside", self.beside);
      kept.bits("memory_is_out,deep", self.memory_is_out, self.deep);
      kept("left", self.left);
      kept("offloaded", self.offloaded);
    });
  }
};
// The sandbox is gone: it could not be started, crashed, or stopped as it was told.
struct SandboxExited {
  SandboxId sandbox;
  Error error;             // what to tell the invocation that it took with it
  std::string error_type;  // "Runtime.ExitError", "Runtime.OutOfMemory", "Sandbox.Failure", ...
  // The invocation that it was given, the last one in it, never reached its handler: it had ended
  // after the one before. Such an invocation is not lost, it starts again in a new sandbox. Of one
  // that was starting: what it started in was broken by others.
  bool undelivered = false;

  static constexpr std::string_view kName = "sandbox exited";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("sandbox", self.sandbox);
    visit.template flag<0>("undelivered", self.undelivered);
    visit.unhashed("error", self.error.code);
    visit.unhashed("error_type", self.error_type);
  }
};

// Its sandbox is about to end, and this one never reached its handler: it waits again. Of a sandbox
// with others in it; SandboxExited tells of the last one.
struct InvocationUndelivered {
  InvocationId invocation;

  static constexpr std::string_view kName = "invocation undelivered";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("invocation", self.invocation);
  }
};

// The handler answered; the sandbox is idle again, unless it has others.
struct InvocationFinished {
  InvocationId invocation;
  Duration execution{};
  bool succeeded = true;  // false: the handler reported an error
  Bytes device_memory;    // what the sandbox holds on the device now

  static constexpr std::string_view kName = "invocation finished";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("invocation", self.invocation);
    visit("execution", self.execution);
    visit.template flag<0>("succeeded", self.succeeded);
    visit("device_memory", self.device_memory);
  }
};

// A reading of NVML through lambent-device.
struct DeviceReading {
  DeviceId device;
  double utilisation = 0;  // 0..1 over the last period
  Bytes memory_used;
  bool healthy = true;  // false: it gets no new work until it is again
  // It fell off the bus, or is taken out of service: what its sandboxes had on it is given up.
  bool lost = false;

  static constexpr std::string_view kName = "device reading";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("device", self.device);
    visit("utilisation", self.utilisation);
    visit("memory_used", self.memory_used);
    visit.template flag<0>("healthy", self.healthy);
    visit.template flag<1>("lost", self.lost);
  }
};

// The answer to MoveMemoryIn and MoveMemoryOut, one to each and none without: how the move ended. A
// sandbox is asked for its next move only after the answer to the one before.
enum class MoveDirection { kIn, kOut };
std::string_view name_of(MoveDirection direction);
struct MemoryMoved {
  SandboxId sandbox;
  MoveDirection direction = MoveDirection::kIn;
  bool done = true;  // false: the memory stayed where it was
  Bytes moved;
  Bytes left;  // what stayed on the device after a move out, the context included
  // After a move out: what will stay on the host when the rest is moved in again.
  Bytes offloaded;
  Duration duration{};

  static constexpr std::string_view kName = "memory moved";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("sandbox", self.sandbox);
    visit.template flag<1>("direction", self.direction);
    visit.template flag<0>("done", self.done);
    visit("moved", self.moved);
    visit("left", self.left);
    visit("offloaded", self.offloaded);
    visit("duration", self.duration);
  }
};

// A program that runs has come to need so much of its memory that is offloaded: it asks for room on
// the device. Answered by one GrantMemory, unless SandboxExited comes first; a sandbox asks again
// only after the answer.
struct MemoryWanted {
  SandboxId sandbox;
  Bytes bytes;

  static constexpr std::string_view kName = "memory wanted";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("sandbox", self.sandbox);
    visit("bytes", self.bytes);
  }
};

// So much of a device's memory is taken by what is no sandbox and does not move for one: contexts
// of executors. What was said of it before no longer holds.
struct DeviceTaken {
  DeviceId device;
  Bytes bytes;

  static constexpr std::string_view kName = "device taken";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("device", self.device);
    visit("bytes", self.bytes);
  }
};

// The instant asked for by WakeAt has come.
struct TimerFired {
  static constexpr std::string_view kName = "timer fired";
  template <typename Self, typename Visitor>
  static void fields(Self&, Visitor&) {}
};

// Stop taking work: queued synchronous invocations are rejected, running ones may finish.
struct DrainStarted {
  static constexpr std::string_view kName = "drain started";
  template <typename Self, typename Visitor>
  static void fields(Self&, Visitor&) {}
};

// A tenant is new, or its share or its quotas have changed: these hold from now on. A quota that is
// not set does not limit. Of a tenant that was never told of, weight 1 holds and no quota.
struct TenantChanged {
  TenantId tenant;
  double weight = 1;  // limits::kLeastWeight to kMostWeight
  std::optional<uint64_t> concurrency;
  std::optional<Bytes> gpu_memory;
  std::optional<Duration> gpu_time_per_hour;
  std::optional<Bytes> host_memory;

  static constexpr std::string_view kName = "tenant changed";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("tenant", self.tenant);
    visit.within("weight", self.weight, limits::kLeastWeight, limits::kMostWeight);
    visit.maybe("concurrency", self.concurrency);
    visit.maybe("gpu_memory", self.gpu_memory);
    visit.maybe("gpu_time_per_hour", self.gpu_time_per_hour);
    visit.maybe("host_memory", self.host_memory);
  }
};

// A call of the function is expected in so long, this likely: of what makes several calls, such as
// a run of a workflow, the next ones are known.
struct CallForeseen {
  FunctionId function;
  Duration within{};
  double chance = 1;

  static constexpr std::string_view kName = "call foreseen";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("function", self.function);
    visit("within", self.within);
    visit.within("chance", self.chance, 0.0, 1.0);
  }
};

// Of the sandboxes that rest this one is to leave: the host's memory is short, and it has no GPU
// (scheduling/host_victims.h; what it takes is measured, so who measures chooses); or a client said
// so. If it does not rest any more, nothing happens.
struct SandboxCrowdedOut {
  SandboxId sandbox;

  static constexpr std::string_view kName = "sandbox crowded out";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("sandbox", self.sandbox);
  }
};

// A program before this one counted so much GPU time of the tenant, which was used about `age` ago:
// it counts into the tenant's hour. After TenantChanged of that tenant.
struct GpuTimeUsed {
  TenantId tenant;
  Duration time{};
  Duration age{};

  static constexpr std::string_view kName = "GPU time used";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("tenant", self.tenant);
    visit("time", self.time);
    visit("age", self.age);
  }
};

using Event =
    std::variant<FunctionRegistered, FunctionRemoved, InvocationSubmitted, InvocationCancelled,
                 SandboxReady, SandboxExited, InvocationFinished, DeviceReading, TimerFired,
                 DrainStarted, MemoryMoved, MemoryWanted, DeviceTaken, TenantChanged,
                 InvocationUndelivered, CallForeseen, SandboxCrowdedOut, GpuTimeUsed>;

}  // namespace lambent::dispatch
