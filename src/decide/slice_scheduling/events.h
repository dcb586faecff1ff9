// What can happen to the slice dispatcher, and what it wants done: closed sets of values.
// Made and performed by the worker's PipelineHost, the simulator and tests.
#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/domain/slice.h"
#include "decide/pipeline/function.h"

namespace lambent::slice_scheduling {

// One function on one placement: a process for each stage process, or for each of its replicas.
using InstanceId = StrongId<struct InstanceTag, uint64_t>;
// Requests of one function that an instance works on together.
using JobId = StrongId<struct JobTag, uint64_t>;

// Events.

struct SliceAdded {
  Slice slice;
};
// It is gone or may not be used any more. The host ends what runs on it: InstanceEnded follows.
// If it `returns` it is only out for a while (a measurement, a GPU that may come back): none gets
// it before the next SliceAdded, but requests that fit only it wait instead of being refused.
struct SliceLost {
  DeviceId slice;
  bool returns = false;
};
// A function was deployed, changed, or measured again. If `replaced`, its instances run other code:
// they get no more jobs and are stopped when they are idle.
struct FunctionPut {
  std::shared_ptr<const pipeline::PipelineFunction> function;
  bool replaced = true;
};
// What it has queued is completed with NOT_FOUND; its instances are stopped.
struct FunctionRemoved {
  FunctionId function;
};
struct RequestSubmitted {
  InvocationId request;
  FunctionId function;
  bool acknowledged = false;  // it was promised that it will run: no full queue refuses it
};
// It is not waited for any more: completed with CANCELLED if it is queued, else it goes on.
struct RequestCancelled {
  InvocationId request;
};
// Answers StartInstance and LoadInstance: it takes jobs, all its weights are on its slices.
struct InstanceReady {
  InstanceId instance;
};
// Answers UnloadInstance: its weights are in host memory, its slice is free for others.
struct InstanceUnloaded {
  InstanceId instance;
};
// It is about to end by itself (crashed, lost a slice, could not be started): it gets no more jobs
// and is not stopped; those it has stay with it until InstanceEnded, or finish before.
struct InstanceEnding {
  InstanceId instance;
};
// It is gone: it could not be started, crashed, was stopped, lost a slice. Jobs that it had and
// did not finish are queued again, in front.
struct InstanceEnded {
  InstanceId instance;
  Error error;
  // The jobs that were at work where it died: only they count an attempt. Unknown: all of its jobs
  // do.
  std::optional<std::vector<JobId>> blamed = {};
};
struct JobFinished {
  JobId job;
  Duration execution{};  // from GiveJob on
};
struct TimerFired {};
// Take no more work, for good: what is queued, and what is submitted from then on, is completed
// with UNAVAILABLE; instances are stopped as soon as they are idle.
struct DrainStarted {};

using Event = std::variant<SliceAdded, SliceLost, FunctionPut, FunctionRemoved, RequestSubmitted,
                           RequestCancelled, InstanceReady, InstanceUnloaded, InstanceEnding,
                           InstanceEnded, JobFinished, TimerFired, DrainStarted>;

// Actions.

struct StartInstance {
  InstanceId instance;
  FunctionId function;
  pipeline::Placement placement;
};
// Idle ones only, loaded or unloaded. InstanceEnded answers.
struct StopInstance {
  InstanceId instance;
};
struct UnloadInstance {
  InstanceId instance;
};
struct LoadInstance {
  InstanceId instance;
};
// Jobs of an instance pass through its stages in the order in which they were given.
struct GiveJob {
  JobId job;
  InstanceId instance;
  std::vector<InvocationId> requests;
  // An instance ended under one of them: no stage works on another job beside it, which would be
  // blamed with it if that happens again.
  bool alone = false;
};
// Exactly one for each request that was submitted. Without an error: its job finished, and the host
// has the answer.
struct CompleteRequest {
  InvocationId request;
  std::optional<Error> error;
};
// Replaces the wake-up asked for before.
struct WakeAt {
  Instant when;
};

using Action = std::variant<StartInstance, StopInstance, UnloadInstance, LoadInstance, GiveJob,
                            CompleteRequest, WakeAt>;

}  // namespace lambent::slice_scheduling
