// PipelineInstance: one pipeline function on one placement: a sandbox for each stage process,
// channels between them, and the jobs on their way through. Used by PipelineHost on the loop
// thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/domain/function.h"
#include "core/domain/invocation.h"
#include "core/loop/event_loop.h"
#include "decide/pipeline/partition.h"
#include "decide/slice_scheduling/events.h"
#include "node/worker/pipeline_package.h"
#include "node/worker/stage_process_answer.h"
#include "node/worker/stage_process_plan.h"
#include "node/worker/stage_process_sandboxes.h"

namespace lambent::worker {

struct JobRequest {
  InvocationId id;
  std::string payload;
};

// How a job ended, and where its time went.
struct JobEnd {
  slice_scheduling::JobId job;
  std::vector<RequestAnswer> results;  // one for each request
  Duration execution{};                // since it was given
  struct StageProcessTime {
    DeviceId slice;
    size_t stage = 0;
    Duration began{};  // when the stage process had it, after the instance was given it
    Duration ended{};
    Duration busy{};   // of its components
    Duration queue{};  // in the stage process, for the job before
    Duration wait{};   // for what it received
    Duration receive{};
    Duration send{};
  };
  std::vector<StageProcessTime> stage_processes;
  std::vector<std::pair<DeviceId, ComponentReading>> readings;
  std::string log_tail;  // of the stage process that gathers
  Bytes device_memory_peak;
};

struct InstanceEnd {
  Error error;
  std::string error_type;
  std::string payload;  // Lambda's error JSON
  std::string log_tail;
  // Jobs that a stage was at work on when it ended by itself; unknown: it was ended otherwise.
  std::optional<std::vector<slice_scheduling::JobId>> blamed = {};
};

class PipelineInstance {
 public:
  struct Request {
    std::shared_ptr<const PipelinePackage> package;
    FunctionSpec spec;  // of its stage processes, but for their memory
    pipeline::Placement placement;
    std::vector<Bytes> device_memory;  // limit of each stage process
    std::string folder;                // for its channels; made here, removed with it
    Bytes slot;                        // the largest job's value that a channel takes
  };
  // Any of them may come before the call that led to it returns, none after on_end.
  struct Events {
    std::function<void()> on_ready;  // it has started, or is loaded again
    std::function<void()> on_unloaded;
    std::function<void(JobEnd)> on_job;
    // It comes to an end, and takes no more jobs; before on_end.
    std::function<void()> on_ending;
    std::function<void(InstanceEnd)> on_end;  // all its sandboxes are gone
  };

  PipelineInstance(loop::EventLoop& loop, StageProcessSandboxes& sandboxes, Request request,
                   Events events);
  ~PipelineInstance();
  PipelineInstance(const PipelineInstance&) = delete;
  PipelineInstance& operator=(const PipelineInstance&) = delete;

  void start();
  // `alone`: no stage process works on another job beside it, so that it is to blame if one dies.
  void give(slice_scheduling::JobId job, std::vector<JobRequest> requests, bool alone = false);
  // Only while no job is in it.
  void unload();
  void load();
  // Ends it; jobs that are in it end with it, untold.
  void stop(Error error, std::string error_type);
  // The same, where no job is to blame.
  void abandon(Error error, std::string error_type);

  const pipeline::Placement& placement() const { return request_.placement; }
  std::vector<SandboxId> sandboxes() const;

  // What became of its sandboxes; the instance may be gone after these.
  void stage_process_ready(SandboxId sandbox);
  void stage_process_answered(SandboxId sandbox, HandlerAnswer answer);
  void stage_process_ended(SandboxEnd end);
  void memory_moved(SandboxId sandbox, const MemoryMove& move);

 private:
  struct Held {
    slice_scheduling::JobId job;
    InvocationId invocation;  // as its sandbox knows it
  };
  struct StageProcess {
    SandboxId sandbox;
    bool ready = false;
    bool gone = false;
    std::deque<slice_scheduling::JobId> waiting;
    std::deque<Held> held;  // given to its sandbox and not answered, the oldest first
    std::optional<slice_scheduling::JobId> answered;  // the last, if it still is in here
    loop::TimerId timer;                              // of the oldest
  };
  struct Job {
    std::vector<JobRequest> requests;
    uint64_t turn = 0;  // its number among the jobs of this instance
    bool alone = false;
    Instant given{};
    size_t stage_processes_left = 0;
    std::optional<RequestAnswer> failure;  // of a stage process, and so of all its requests
    JobEnd end;
  };

  Result<void> make_channels();
  StageProcessExtras extras_of(size_t stage_process) const;
  size_t index_of(SandboxId sandbox) const;
  size_t stage_of(size_t stage_process) const {
    return plans_.stage_processes[stage_process].process.stage;
  }
  // One of each stage process's replicas has it.
  JobEnd::StageProcessTime& time_in(Job& job, size_t stage_process) const {
    return job.end.stage_processes[plans_.stage_processes[stage_process].process.stage_process];
  }
  // "stage 1 (blur, classify), replica 2 on slice 0:3".
  std::string name_of(size_t stage_process) const;
  void begin_next(size_t stage_process);
  // Whether the stage process may have this job in flight beside those that it has.
  bool has_room(const StageProcess& stage_process, const Job& job) const;
  // From now on the oldest that it holds may take as long as it may.
  void watch_oldest(size_t stage_process);
  // A job's requests in this stage process and, one stage after the other, in those before it:
  // there it may wait for all jobs given earlier that are still to be done. A stage process with
  // replicas begins jobs while one without has many of them before it.
  size_t requests_before_end(const Job& job, size_t stage_process) const;
  size_t requests_of(slice_scheduling::JobId job) const;  // none if it is over
  // A channel is of no more use. Most often it is because a stage has died, of which is heard soon.
  void channel_broke(const std::string& what);
  void time_out(size_t stage_process);
  void finish(slice_scheduling::JobId job);
  void fail(slice_scheduling::JobId job, RequestAnswer failure);
  // What it holds without that of which it never saw anything.
  static std::vector<slice_scheduling::JobId> seen_by(const StageProcess& stage_process,
                                                      const std::vector<InvocationId>& unseen);
  // Of a stage process that its own code ended: where it was at work on one request only, that one
  // ended it, and would end the next one as well.
  void fail_the_only_one(const std::vector<slice_scheduling::JobId>& seen, const SandboxEnd& end);
  void end_if_gone();
  // Ends it if the move of its memory is not over in time.
  void limit_move();

  loop::EventLoop& loop_;
  StageProcessSandboxes& sandboxes_;
  const Request request_;
  const Events events_;
  StageProcessPlans plans_;
  std::vector<StageProcess> stage_processes_;
  uint64_t turns_ = 0;  // jobs that were given
  std::map<slice_scheduling::JobId, Job> jobs_;
  std::optional<InstanceEnd> end_;  // it is being ended, with these words
  loop::TimerId start_timer_;
  loop::TimerId broken_timer_;
  loop::TimerId move_timer_;  // while its memory is moved
  bool is_broken_ = false;    // it takes no more jobs
  bool started_ = false;      // all stage processes were ready once
};

}  // namespace lambent::worker
