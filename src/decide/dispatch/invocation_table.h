// InvocationTable: every invocation that has no outcome yet, in slots that are used again, found by
// id, and linked into one queue per function. Owned by Dispatcher, on the loop thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/state_archive.h"
#include "core/base/time.h"
#include "core/domain/invocation.h"
#include "decide/dispatch/wait_record.h"
#include "decide/scheduling/fleet.h"
#include "decide/scheduling/hybrid.h"

namespace lambent::dispatch {

using InvocationSlot = uint32_t;
constexpr InvocationSlot kNoInvocation = ~InvocationSlot{0};

enum class InvocationState { kQueued, kStarting, kRunning };
std::string_view name_of(InvocationState state);

struct PendingInvocation {
  InvocationId id;
  FunctionId function;
  InvocationState state = InvocationState::kQueued;
  bool asynchronous = false;
  bool acknowledged = false;
  bool within_run = false;
  StartClass start = StartClass::kWarm;
  unsigned failed_starts = 0;
  unsigned restarts = 0;
  WaitRecord wait;
  scheduling::SandboxSlot sandbox = scheduling::kNoSandbox;
  bool on_host = false;  // its sandbox is in the device pool of functions without GPU
  // It was taken out of the GPUs' queue to run there as a CPU variant: why, and how long it was
  // expected to take with a GPU and there.
  scheduling::HostReason host_reason = scheduling::HostReason::kNone;
  Duration expected_with_gpu{};
  Duration expected_with_host{};
  Instant expected_end = kNever;  // of one that was dispatched to a GPU
  DeviceId device;
  uint64_t arrival = 0;  // counts submissions: the order of arrival
  Instant submitted{};
  Instant dispatched{};
  Instant started{};
  Duration init_time{};  // of the sandbox that was started for it
  Duration sandbox_time{};
  // While it runs: whether its sandbox's memory is yet to come, and once it is there, how long the
  // run was without.
  bool awaits_memory = false;
  Duration memory_time{};
  // Neighbours in its function's queue.
  InvocationSlot earlier = kNoInvocation;
  InvocationSlot later = kNoInvocation;

  void note_reason(scheduling::WaitReason reason, Instant now) {
    wait.begin(reason, now);
    wait.looked(submitted, now);
  }
  // A client waits for its answer, or for that of the workflow which calls it: it has a bound of
  // time.
  bool has_client() const { return !asynchronous && !acknowledged; }
  bool holds_connection() const { return has_client() && !within_run; }
  bool is_cpu_variant() const { return host_reason != scheduling::HostReason::kNone; }
};

class InvocationTable {
 public:
  PendingInvocation& operator[](InvocationSlot slot) { return slots_[slot]; }
  const PendingInvocation& operator[](InvocationSlot slot) const { return slots_[slot]; }
  size_t size() const { return used_; }
  // Of each slot, whether it is free.
  std::vector<bool> free_slots() const;
  std::optional<InvocationSlot> find(InvocationId id) const;

  // The id must not be there yet.
  InvocationSlot add(InvocationId id);
  void remove(InvocationSlot slot);

  // The queue of a function, oldest first.
  InvocationSlot front(FunctionId function) const;
  void push_back(FunctionId function, InvocationSlot slot);
  // Back to where its arrival number belongs; near the front, as a rule.
  void put_back(FunctionId function, InvocationSlot slot);
  void unlink(InvocationSlot slot);
  // Those that were the first of a queue, or had a place, until others came back before them wait
  // for their own queue from now on. To be called once an event is over, so that one that comes
  // back and goes at once ends no stretch of the others.
  void begin_waits_behind(InvocationSlot head, Instant now);

  // `longest_waits`: with what each has waited for longest.
  void archive(StateArchive& archive, bool longest_waits);

 private:
  struct Queue {
    InvocationSlot front = kNoInvocation;
    InvocationSlot back = kNoInvocation;
  };

  size_t home_of(InvocationId id) const;
  size_t bucket_of(InvocationSlot slot) const;
  // Puts the slot, whose id is not there yet, among the buckets.
  void enter(InvocationSlot slot);
  void grow();
  void archive_used(StateArchive& archive, bool longest_waits);

  std::vector<PendingInvocation> slots_;
  std::vector<InvocationSlot> free_;
  size_t used_ = 0;
  std::vector<Queue> queues_;
  // Open addressing with linear probing, at most half full; kNoInvocation marks an empty bucket.
  std::vector<InvocationSlot> buckets_;
};

}  // namespace lambent::dispatch
