// Machine: performs what a SliceDispatcher wants done, on modelled slices, processes and links in
// virtual time, and says what happened. Used by the run and by tests; one thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "decide/slice_scheduling/events.h"
#include "sim/slice_simulator/links.h"
#include "sim/slice_simulator/model.h"
#include "sim/slice_simulator/stage_processes.h"

namespace lambent::slice_simulator {

// How long a slice or a GPU was in use.
struct Use {
  Duration busy{};    // a stage process of it computed or copied
  Duration held{};    // an instance had its weights there, or was bringing them
  Duration coming{};  // of that: it was started there, or brought them
};

// Where a request's time went once it had been given to an instance.
struct JobTimes {
  Instant given{};
  Duration execution{};  // the longest stage process of each stage, summed
  Duration transfer{};   // the same of copies between stages, and of its input and result
};

class Machine {
 public:
  // `tell` is called from run_until(), for what has happened, at that instant. It may call
  // perform(). The scene outlives the machine.
  using Tell = std::function<void(const slice_scheduling::Event&, Instant)>;
  Machine(const Scene& scene, Tell tell);

  void perform(const slice_scheduling::Action& action, Instant now);

  // When something happens next of itself; kNever: nothing does.
  Instant next() const;
  // Lets everything happen that does up to then, in its order.
  void run_until(Instant until);
  // Lets something go wrong now that is not in the scene, and calls `tell` for what follows.
  void inject(const Fault& fault, Instant now);

  // Of a job that `tell` is being told to be finished; null of others.
  const JobTimes* times_of(JobId job) const;
  // When the instance began to come to its slices for the last time, and when it was there.
  struct Coming {
    Instant began{}, there = kNever;
  };
  const Coming* coming_of(slice_scheduling::InstanceId instance) const;

  std::map<DeviceId, Use> slice_use(Instant now) const;
  std::map<std::pair<uint32_t, uint32_t>, Use> gpu_use(Instant now) const;  // by node and GPU
  // What was wanted and cannot be on a real machine: work on a lost slice, two at a time on one
  // slice, more memory than it has. Empty unless the policy is wrong.
  const std::vector<std::string>& impossible() const { return impossible_; }
  Bytes copied() const { return copied_; }  // of weights, in and out

 private:
  using InstanceId = slice_scheduling::InstanceId;
  enum class Happening { kStarted, kStopped, kStepDone, kHandedOver, kReceived, kFault };
  struct Timer {
    Instant at{};
    uint64_t order = 0;
    Happening what = Happening::kStarted;
    InstanceId instance;
    size_t number = 0;  // stage process, channel or fault
    size_t part = 0;    // of a stage process
    bool operator>(const Timer& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  struct Job {
    std::vector<InvocationId> requests;
    uint64_t number = 0;  // of its instance's
    bool alone = false;
    size_t stage_processes_left = 0;
    std::vector<Duration> execution, transfer;  // by stage
    JobTimes times;
  };
  enum class Presence { kStarting, kLoading, kLoaded, kUnloading, kUnloaded, kStopping };
  struct Running {
    FunctionId function;
    Wiring wiring;
    Presence presence = Presence::kStarting;
    std::map<Links::CopyId, size_t> weights;  // copies of weights on their way
    std::map<JobId, Job> jobs;
    uint64_t jobs_given = 0;
    Coming coming;
    bool is_coming = false;
    Duration start{};      // how long it takes, singly and beside those that have come until now
    Instant started_at{};  // when it is over, beside those
  };
  struct Counter {  // of stage processes, on a slice or a GPU
    struct Since {
      unsigned count = 0;
      Instant since{};
    };
    Since busy, held, coming;
    Use use;
    void change(Since Counter::*which, Duration Use::*sum, int by, Instant now);
    Use until(Instant now) const;
  };
  struct Place {
    Slice slice;
    bool lost = false;
    Links::PortId gpu_in = 0, gpu_out = 0, node_in = 0, node_out = 0;
    Counter counter;
    std::map<InstanceId, Bytes> contexts;
    std::map<InstanceId, Bytes> memory;  // of what is loaded, contexts excluded
  };
  struct Copying {
    InstanceId instance;
    size_t channel = 0;
    enum class What { kWeightsIn, kWeightsOut, kSend, kReceive } what = What::kWeightsIn;
  };

  void start(const slice_scheduling::StartInstance& wanted, Instant now);
  Duration start_beside_others(InstanceId id, Instant now);
  enum class Move { kFirst, kIn, kOut };  // kFirst: of a process that has just started
  void move_weights(InstanceId id, Move move, Instant now);
  void give(const slice_scheduling::GiveJob& wanted, Instant now);
  void take(InstanceId id, size_t stage_process, Instant now);
  void pass_on(InstanceId id, size_t stage_process, size_t part, JobId job, Instant now);
  void step(InstanceId id, size_t stage_process, size_t part, Instant now);
  void begin_work(RunningStageProcess& stage_process, Part& part, Instant now);
  void end_step(InstanceId id, size_t stage_process, size_t part, Instant now, Duration took);
  void receive(InstanceId id, size_t stage_process, size_t part, Instant now);
  void wake(InstanceId id, size_t stage_process, size_t channel, Instant now);
  static size_t part_at(const Running& running, const RunningStageProcess& stage_process,
                        size_t channel);
  void received(InstanceId id, size_t channel, Instant now);
  void hand_on(InstanceId id, size_t stage_process, size_t part, Instant now);
  void sent(InstanceId id, size_t channel, Instant now);
  void part_done(InstanceId id, size_t stage_process, size_t part, Instant now);
  void stage_process_done(InstanceId id, size_t stage_process, JobId job, Instant now);
  void copied(Links::CopyId copy, Instant now);
  void happen(const Timer& timer);
  void tell_happened(Instant now);
  void fault(const Fault& fault, Instant now);
  void end(InstanceId id, const std::string& why, Instant now);
  void hold(Running& running, InstanceId id, bool held, Instant now);
  void come(Running& running, bool coming, Instant now);
  void work(const RunningStageProcess& stage_process, bool working, Instant now);
  void at(Instant when, Happening what, InstanceId instance, size_t number, size_t part = 0);
  Duration execution_of(const Running& running, const RunningStageProcess& stage_process,
                        const Job& job) const;
  Counter& gpu_of(const Place& place) { return gpus_[{place.slice.node, place.slice.gpu}]; }
  void complain(std::string what, Instant now);

  const Scene& scene_;
  Tell tell_;
  std::vector<slice_scheduling::Event> happened_;  // and not told yet
  Links links_;
  std::map<DeviceId, Place> places_;
  std::map<std::pair<uint32_t, uint32_t>, Counter> gpus_;
  std::map<FunctionId, std::shared_ptr<const pipeline::PipelineFunction>> functions_;
  std::map<InstanceId, Running> instances_;
  std::map<Links::CopyId, Copying> copies_;
  std::map<JobId, JobTimes> finished_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  uint64_t order_ = 0;
  std::vector<std::string> impossible_;
  Bytes copied_;
};

}  // namespace lambent::slice_simulator
