// Why: the story of one invocation, told from a replay: what was ahead of it and why, what it
// waited for, what was evicted for it, and how it ended. Pure; fed with the steps of a replay.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "decide/journal/replay.h"

namespace lambent::journal {

// What was dispatched while it waited, of one function.
struct WentFirst {
  // What a policy may order by.
  struct Side {
    scheduling::FlowStatus status;
    unsigned pending = 0, in_flight = 0;
    bool sheds = false;
    TenantId tenant;
    Duration tenant_time{};  // what its tenant was charged, by its weight
  };
  FunctionId function;
  uint64_t count = 0;
  // When the first of them went: how its function stood, and that of the one that waited.
  Side its, own;
};

struct Moment {
  Instant now{};
  std::string sentence;
};

class Why {
 public:
  explicit Why(InvocationId invocation) : invocation_(invocation) {}

  void restored(const SegmentHeader& header, const dispatch::Dispatcher& dispatcher,
                const Names& names);
  void decided(const ReplayedDecision& decision);
  void step(const ReplayStep& step);

  bool found() const { return found_; }
  bool over() const { return outcome_.has_value(); }
  // No run can follow: an asynchronous one that failed may be tried again.
  bool settled() const {
    return outcome_ && (!asynchronous_ || outcome_->outcome == Outcome::kSucceeded);
  }

  // The story: a line for each moment, times counted from its arrival.
  std::string text() const;

  InvocationId invocation() const { return invocation_; }
  const std::string& function() const { return function_name_; }
  TenantId tenant() const { return tenant_; }
  Instant arrived() const { return arrived_; }
  const std::vector<Moment>& moments() const { return moments_; }
  const std::vector<WentFirst>& went_first() const { return went_first_; }
  // How long it waited for each reason.
  const std::map<scheduling::WaitReason, Duration>& waits() const { return waits_; }
  const std::vector<std::string>& evicted() const { return evicted_; }
  const std::optional<dispatch::CompleteInvocation>& outcome() const { return outcome_; }
  const Names& names() const { return names_; }

 private:
  void say(Instant now, std::string sentence) { moments_.push_back({now, std::move(sentence)}); }
  void begin_again();
  void arrive(const ReplayStep& step, const dispatch::InvocationSubmitted& event);
  void follow(const ReplayStep& step);
  void note_place(const ReplayStep& step);
  void note_foreseen(const ReplayedDecision& decision);
  void tell_waits(Instant now);
  std::vector<std::string> waits_in_words() const;
  std::string order_in_words(const WentFirst& other) const;
  void leave_queue(const ReplayStep& step);
  void note_moves_out(const ReplayStep& step);
  void note_actions(const ReplayStep& step);
  void complete(const ReplayStep& step, const dispatch::CompleteInvocation& action);
  std::string status_in_words(const dispatch::Dispatcher& dispatcher, Instant now) const;

  InvocationId invocation_;
  bool found_ = false;
  bool queued_ = false;
  bool cold_ = false;
  bool started_ = false;          // its sandbox
  bool waits_for_token_ = false;  // and that is ready
  SandboxId started_sandbox_;
  SandboxId sandbox_;  // that it was given to
  FunctionId function_;
  std::string function_name_;
  TenantId tenant_;
  Duration over_run_{};
  std::string policy_;
  bool has_virtual_times_ = false;
  bool asynchronous_ = false;
  unsigned runs_ = 1;  // that it was submitted for; above 1: it failed and was tried again
  Instant arrived_{};
  Instant submitted_{};  // for the last of them
  Instant last_{};
  scheduling::WaitReason reason_ = scheduling::WaitReason::kNone;
  std::vector<Moment> moments_;
  std::vector<WentFirst> went_first_;
  std::map<scheduling::WaitReason, Duration> waits_;
  // Of both, what the story has not told yet.
  std::map<scheduling::WaitReason, Duration> untold_waits_;
  std::map<FunctionId, uint64_t> untold_first_;
  std::vector<std::string> evicted_;
  std::optional<dispatch::CompleteInvocation> outcome_;
  Names names_;
};

}  // namespace lambent::journal
