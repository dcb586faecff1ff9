// MeasuredWorkload: what a journal says that was asked for and what it took: arrivals, execution
// and cold start times, and what became of them. Filled by a replay; one thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "decide/journal/replay.h"
#include "sim/simulator/simulation.h"

namespace lambent::bin {

// Latencies and what else one compares.
struct RunOutcomes {
  std::vector<double> latencies_s;                          // of those that ran
  double queue_s = 0, cold_s = 0, memory_s = 0, run_s = 0;  // sums; cold: sandbox and init
  uint64_t cold = 0;
  uint64_t failed = 0;  // rejected, or ended by an error

  void add(const dispatch::CompleteInvocation& outcome);
};

// Of the last stretch of the journal without a gap or a restart, for only within one do instants
// and states belong together.
class MeasuredWorkload {
 public:
  // What ran beside others is taken to have been slowed down by them as the model has it, so that
  // the model slows it down again as much.
  explicit MeasuredWorkload(simulator::DeviceModel device) : device_(std::move(device)) {}

  void restored(const journal::SegmentHeader& header, const dispatch::Dispatcher& dispatcher,
                const journal::Names& names);
  void step(const journal::ReplayStep& step);

  const journal::RunFacts& facts() const { return facts_; }
  // Leaves out what arrived longer ago than this before the last event, or outside of these times
  // after the first one. What it took teaches the means all the same.
  void keep_last(Duration last);
  void keep_between(Duration from, std::optional<Duration> to);
  // From the first event to the last.
  Duration length() const { return begin_ ? last_event_ - *begin_ : Duration(0); }
  // What became of those that were kept and ended.
  using RecordedSink = std::function<void(FunctionId, const dispatch::CompleteInvocation&)>;
  void recorded(const RecordedSink& sink) const;
  const journal::Names& names() const { return names_; }
  // From the first event on; those that were not over have the mean execution of their function.
  std::vector<simulator::Arrival> arrivals() const;
  std::vector<simulator::FunctionModel> functions() const;
  uint64_t unfinished() const { return running_.size() + waiting_.size(); }
  uint64_t unmeasured() const;  // arrivals without an execution time of their own
  bool too_many() const { return too_many_; }

 private:
  struct Mean {
    Duration sum{};
    int64_t count = 0;
    void add(Duration sample) {
      sum += sample;
      ++count;
    }
    std::optional<Duration> value() const {
      return count > 0 ? std::optional(sum / count) : std::nullopt;
    }
  };
  struct Function {
    dispatch::FunctionProfile profile;
    Mean execution, sandbox, init;
  };
  // How much work one of several on a device has had done, only in time.
  struct WorkClock {
    unsigned running = 0;
    Instant since{};
    double done_s = 0;
  };
  struct Running {
    size_t arrival = 0;
    uint32_t device = 0;
    uint64_t beside = 0;  // its other devices: StartSandbox::beside
    double work_from_s = 0;
  };

  double work_done_s(uint32_t device, Instant now);
  // One more or one less at work there.
  void count_at_work(const Running& run, int by, Instant now);
  void start(const dispatch::StartInvocation& action, Instant now);
  void complete(const dispatch::CompleteInvocation& action, Instant now);

  simulator::DeviceModel device_;
  journal::RunFacts facts_;
  journal::Names names_;
  std::optional<Instant> begin_;
  std::map<FunctionId, Function> functions_;
  std::unordered_map<SandboxId, FunctionId> starting_;
  std::unordered_map<SandboxId, uint64_t> beside_;  // of those on several devices
  std::unordered_map<SandboxId, dispatch::StartInvocation> awaiting_memory_;
  std::unordered_map<InvocationId, size_t> waiting_;
  std::unordered_map<InvocationId, Running> running_;
  std::map<uint32_t, WorkClock> clocks_;
  std::vector<simulator::Arrival> arrivals_;
  struct Ended {
    size_t arrival = 0;
    dispatch::CompleteInvocation outcome;
  };
  std::vector<Ended> ended_;
  size_t first_kept_ = 0;                 // of the arrivals
  std::optional<size_t> first_left_out_;  // after those that are kept
  Instant last_event_{};
  bool too_many_ = false;
};

}  // namespace lambent::bin
