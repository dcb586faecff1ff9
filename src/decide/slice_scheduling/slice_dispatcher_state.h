// SliceDispatcher::State: the accounting of the slice dispatcher and how it changes. Internal to
// the slice_dispatcher*.cc files; on the thread that handles events.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "decide/slice_scheduling/slice_dispatcher.h"

namespace lambent::slice_scheduling {

struct SliceDispatcher::State {
  State(std::unique_ptr<SlicePolicy> policy_in, SliceDispatcherOptions options_in)
      : policy(std::move(policy_in)), options(options_in) {
    world.window = options.window;
  }

  // Requests on their way through an instance, and what is expected of them.
  struct Job {
    InstanceId instance;
    std::vector<QueuedRequest> requests;
    Instant given{};
    Duration expected{};  // from `given` on
  };
  // What only the dispatcher knows of an instance.
  struct Record {
    Duration busy_at_window_start{};
    std::vector<JobId> jobs;    // in the order in which they were given
    bool ending = false;        // by itself: it need not be stopped
    bool ends_unasked = false;  // ... and that was not decided
  };

  // Events: one function each, in the file that their subject names.
  void on(const SliceAdded& event);
  void on(const SliceLost& event);
  void on(const FunctionPut& event);
  void on(const FunctionRemoved& event);
  void on(const RequestSubmitted& event);
  void on(const RequestCancelled& event);
  void on(const InstanceReady& event);
  void on(const InstanceUnloaded& event);
  void on(const InstanceEnding& event);
  void on(const InstanceEnded& event);
  void on(const JobFinished& event);
  void on(const TimerFired& event);
  void on(const DrainStarted& event);

  // Decisions that validate() has let pass.
  void apply(const Assign& decision);
  void apply(const Start& decision);
  void apply(const Retire& decision);
  void apply(const ChangeAllocationMode& decision);
  void apply(const Unload& decision);
  void apply(const Load& decision);
  void apply(const Refuse& decision);
  void apply(const AskAgain& decision);

  void act(Action action) { actions->push_back(std::move(action)); }
  // Asks the policy until it has no more to say.
  void decide();
  // Closes the window if it is over: utilisations and arrivals are of the one that ended.
  void roll_window();
  // Asks for a wake-up where the one that stands is too late.
  void wake();

  void enqueue(FunctionState& function, QueuedRequest request);
  // The request leaves its queue.
  QueuedRequest take(InvocationId request);
  void complete(InvocationId request, std::optional<Error> error);
  void complete_all_queued(FunctionState& function, const Error& error);
  // Back into its queue, or completed where it has no attempt or no function left.
  // `counts`: as one more attempt.
  void put_back(QueuedRequest request, FunctionId function, const Error& error, bool counts);

  // One job of them.
  void give(Instance& instance, std::vector<QueuedRequest> requests, bool alone);
  void retire(Instance& instance);
  void retire_all(FunctionState& function);
  void stop_if_idle(Instance& instance);
  void rest(const std::vector<DeviceId>& slices);  // a start failed on them
  void leave_slices(const Instance& instance);
  void count_failed_start(FunctionState& function, const Error& error);
  void learn_pace(Instance& instance, const Job& job, Duration execution);
  Instance* find(InstanceId id);
  FunctionState* find(FunctionId id);

  std::unique_ptr<SlicePolicy> policy;
  const SliceDispatcherOptions options;
  SliceWorld world;
  std::unordered_map<InstanceId, Record> records;
  std::unordered_map<JobId, Job> jobs;
  // Submitted, not completed, not queued.
  std::unordered_map<InvocationId, JobId> running;
  std::map<FunctionId, size_t> arrivals;  // in this window
  uint64_t last_instance = 0;
  uint64_t last_job = 0;
  uint64_t last_sequence = 0;
  uint64_t last_version = 0;
  Instant window_start{};
  bool window_moves = false;         // something in it, or in the one before, is not zero
  std::optional<Instant> wake_at;    // asked for and not come yet
  std::optional<Instant> ask_again;  // what the policy asked for when it was asked last
  std::vector<Decision> decisions;
  uint64_t policy_errors = 0;
  std::string last_policy_error;

  // Of the event that is being handled.
  Instant now{};
  std::vector<Action>* actions = nullptr;
};

}  // namespace lambent::slice_scheduling
