// WorkflowHost: the runs of workflows on this worker: makes their calls as ordinary invocations,
// hands each end back to its run, ends runs in time, and clears away the objects that they made.
// Used on the loop thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <variant>

#include "core/base/random.h"
#include "core/domain/function.h"
#include "core/domain/invocation.h"
#include "core/loop/event_loop.h"
#include "decide/scheduling/flow.h"
#include "decide/workflow/run.h"
#include "node/objects/object_store.h"
#include "node/worker/awaited_objects.h"
#include "node/worker/calls_elsewhere.h"
#include "node/worker/log_store.h"
#include "node/worker/parked_calls.h"
#include "node/worker/runs_ahead.h"
#include "node/worker/workflow_call.h"
#include "node/worker/workflow_trace.h"

namespace lambent::worker {

class WorkflowHost {
 public:
  using Done = std::function<void(Result<InvocationResult>)>;

  struct Events {
    // Makes a call; Done comes once, perhaps before this returns.
    std::function<void(InvocationRequest, Done)> submit;
    // Makes a call of a kernel function, perhaps together with others (CallBatches); the result
    // then has the id of the invocation that they became. `elements` of the first dimension, 0: it
    // is not known. Empty: it is submitted as every call.
    std::function<void(const FunctionSpec&, InvocationRequest, uint64_t elements, bool by_value,
                       Done)>
        submit_kernel = {};
    // No run waits for that call any more.
    std::function<void(InvocationId)> forget;
    std::function<const FunctionSpec*(const FunctionName&)> find_function;
    // Whether the worker is about to stop: what ends for want of a place is then for the next one.
    std::function<bool()> stopping;
    // Whether a call of an acknowledged run, with a payload of this size, may be submitted: it
    // waits in the run until then. Empty: always.
    std::function<bool(const FunctionName&, Bytes payload)> has_room;
    // A run makes its first calls; one that waited for a place has it now. May be empty.
    std::function<void(InvocationId)> on_begin;
    // Comes once for each run that was started, perhaps before start() returns. It began as cold as
    // the coldest of its calls.
    std::function<void(InvocationResult)> on_end;
    std::function<void(FunctionId, std::string_view text)> on_output;
    // What a function's calls and starts take, and whether one would be needed; and that a call of
    // it comes. Both empty: nothing is started ahead of calls.
    RunsAhead::ProspectOf prospect_of = {};
    RunsAhead::Foresee foresee = {};
    // How functions are called that this node cannot run; it may be filled in later. Null: all run
    // here.
    const CallsElsewhere* elsewhere = nullptr;
  };
  struct Limits {
    size_t live = workflow::limits::kLiveRuns;
    size_t depth = workflow::limits::kDepth;
    size_t calls = workflow::limits::kCallsInAll;  // of a run and of those that it called
    Bytes values = workflow::limits::kAllValues;   // that all runs together keep
    workflow::RunLimits run = {};
  };

  // All outlive it; no store: there are no objects.
  WorkflowHost(loop::EventLoop& loop, Random& random, objects::ObjectStore* store, Events events,
               Limits limits);
  WorkflowHost(loop::EventLoop& loop, Random& random, objects::ObjectStore* store, Events events)
      : WorkflowHost(loop, random, store, std::move(events), Limits{}) {}
  ~WorkflowHost();
  WorkflowHost(const WorkflowHost&) = delete;
  WorkflowHost& operator=(const WorkflowHost&) = delete;

  // The graph of a function, from now on (null: it has none); runs that have begun keep theirs.
  void put(FunctionId function, std::shared_ptr<const workflow::Workflow> graph);
  void remove(FunctionId function);
  // Null: it has none.
  const workflow::Workflow* graph(FunctionId function) const {
    const auto found = graphs_.find(function);
    return found == graphs_.end() ? nullptr : found->second.get();
  }

  // Begins a run; on_end tells how it went. Takes the payload out of `request`. Beyond the limit of
  // live runs a synchronous one is RESOURCE_EXHAUSTED, and an asynchronous one waits for a place;
  // what a run calls needs no place of its own. Calls of a run that was acknowledged wait in it
  // while there is no room for them, and take none.
  void start(InvocationRequest& request, const FunctionSpec& spec);
  // Something ended, or the worker is about to stop: calls that wait for room are tried again,
  // soon.
  void room_made() { parked_.try_soon(); }
  size_t parked() const { return parked_.count(); }  // calls that wait for room
  // Ends a run that has begun or waits, as rejected with this error. False: there is none.
  // `if_it_waits`: only an asynchronous one for which there is no place yet.
  bool cancel(InvocationId run, Error error, bool if_it_waits = false);

  size_t waiting() const { return waiting_.size(); }
  // How often a place comes free while none is: zero if that is not known.
  Duration turn() const;
  // Runs that have begun and not ended.
  size_t live() const { return runs_.size() - waiting_.size(); }
  struct Counts {
    uint64_t waiting = 0;
    uint64_t running = 0;
    uint64_t completed = 0;  // since the worker began
  };
  Counts counts(FunctionId function) const;

  // What a run did until now, or until it ended; the last that ended are remembered.
  // NOT_FOUND.
  Result<RunRecord> trace(TenantId tenant, InvocationId run) const;

 private:
  struct LiveRun;
  // Which call of which run an invocation is.
  struct CallOf {
    InvocationId run;
    TenantId tenant;
    workflow::CallKey key;
    unsigned attempt = 1;
    FunctionKind kind = FunctionKind::kHandler;
    Instant began{};
    uint64_t parked = 0;      // waits for room: its number in parked_
    bool takes_room = false;  // submitted for an acknowledged run, and no workflow itself
    bool elsewhere = false;   // on another node
    bool not_made = false;    // it ended before, for want of what it needs
  };
  // Things to do take turns, so that calls which end at once make no deep recursion; after some of
  // them the loop has its turn.
  struct Begin {
    InvocationId run;
  };
  struct CallEnded {
    InvocationId call;
    Result<InvocationResult> result;
  };
  // The run has more to do than it did in its last turn.
  struct GoOn {
    InvocationId run;
  };
  struct TimedOut {
    InvocationId run;
  };
  struct Cancelled {
    InvocationId run;
    Error error;
  };
  // The object is on the host, or will not be.
  struct Came {
    InvocationId run;
    ObjectId object;
  };
  using Work = std::variant<Begin, CallEnded, GoOn, TimedOut, Cancelled, Came>;

  void take_turns(Work work);
  void work_a_while();
  void perform(Begin& work);
  void perform(CallEnded& work);
  void perform(GoOn& work);
  void perform(TimedOut& work);
  void perform(Cancelled& work);
  void perform(Came& work);

  // Counts what the run keeps; where that is too much for all runs together, the one that keeps the
  // most fails. False: it was this one.
  bool keep_values(LiveRun& run);

  // The run may be gone after these.
  void time_out(LiveRun& run);
  void advance(LiveRun& run, const workflow::RunStep& step);
  void end(LiveRun& run, const workflow::RunOutcome& outcome);
  void end(LiveRun& run, InvocationResult how, const workflow::Value* output);

  // Calls (workflow_host_calls.cc).
  void make(LiveRun& run, const workflow::Call& call);
  // False: there is no room for it. The run may be gone.
  bool submit(LiveRun& run, InvocationId id, const workflow::Call& call);
  bool has_room(const FunctionName& function, Bytes payload) const;
  void park(const LiveRun& run, InvocationId id);
  void unpark(const LiveRun& run, InvocationId id);
  // One that waited until what it reads is on the host.
  void release(LiveRun& run, InvocationId id);
  // Those of a run that ends, which were never made.
  void drop_waiting(LiveRun& run);
  bool try_parked(InvocationId id);

  void record(LiveRun& run, const CallOf& call, InvocationId id,
              const Result<InvocationResult>& result, const workflow::CallEnd& end);
  void admit_waiting();
  LiveRun* find(InvocationId run);
  size_t places_taken() const { return live() - called_; }

  // Objects.
  // Holds what the value names; what this invocation made belongs to the run from now on.
  void keep_objects(LiveRun& run, InvocationId maker, const workflow::Value& value);
  void clear_objects(LiveRun& run, const workflow::Value* output);
  void remove_made_by(TenantId tenant, InvocationId call, const workflow::CallEnd& end);

  loop::EventLoop& loop_;
  Random& random_;
  objects::ObjectStore* store_;
  const Events events_;
  const Limits limits_;
  const CallsElsewhere& elsewhere_;
  std::unordered_map<FunctionId, std::shared_ptr<const workflow::Workflow>> graphs_;
  const std::function<const workflow::Workflow*(const FunctionSpec&)> graph_of_ =
      [this](const FunctionSpec& spec) { return graph(spec.id); };
  std::unordered_map<InvocationId, std::unique_ptr<LiveRun>> runs_;
  std::deque<InvocationId> waiting_;  // asynchronous ones, until there is a place
  std::unordered_map<InvocationId, CallOf> calls_;
  Bytes values_;  // of all runs
  std::unordered_map<FunctionId, Counts> counts_;
  RunTraces traces_;
  std::deque<Work> work_;
  bool working_ = false;
  std::optional<loop::TimerId> turn_;  // when the work goes on
  size_t called_ = 0;                  // runs that others called, live
  scheduling::RunningMean took_;       // by runs that had places
  ParkedCalls parked_{loop_, [this](InvocationId call) { return try_parked(call); }};
  AwaitedObjects awaited_;
  RunsAhead ahead_;
  size_t taking_room_ = 0;  // calls under way for which CallOf::takes_room
};

}  // namespace lambent::worker
