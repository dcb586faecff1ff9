// FollowUps: what follows the end of a run of an asynchronous invocation: it waits for its next
// run, or its outcome goes into the catalog, together with the invocation that tells its
// destination. What waits is in the catalog, and here only when it is due. Used by the parts of
// Worker on the loop thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "core/base/random.h"
#include "core/loop/event_loop.h"
#include "core/metrics/worker_metrics.h"
#include "decide/asynchronous/follow_up.h"
#include "node/catalog/catalog.h"
#include "node/worker/aliases.h"
#include "node/worker/drain.h"
#include "node/worker/live_invocations.h"

namespace lambent::worker {

class Cancellation;
class Completions;
class Intake;

class FollowUps {
 public:
  struct Setting {
    asynchronous::Rules rules;  // where a function says nothing
    // How long outcomes can be read.
    Duration result_window = std::chrono::hours(24);
    // One that this many workers ended under while it ran is given up.
    unsigned most_attempts = 3;
  };
  // All outlive it; the constructor uses none.
  struct Dependencies {
    loop::EventLoop& loop;
    LogSink& log;
    Random& random;
    catalog::Catalog& catalog;
    metrics::WorkerMetrics& metrics;
    const FunctionRegistry& functions;
    const Aliases& aliases;
    const Drain& drain;
    Intake& intake;
    Completions& completions;
    Cancellation& cancellation;
  };

  FollowUps(Dependencies dependencies, Setting setting) : uses_(dependencies), setting_(setting) {}
  ~FollowUps() { uses_.loop.cancel(timer_); }
  FollowUps(const FollowUps&) = delete;
  FollowUps& operator=(const FollowUps&) = delete;

  // Of one that has this result: whether it is tried again is noted there.
  asynchronous::FollowUp decide(const LiveInvocation& live, InvocationResult& result) const;
  // Makes it so; after decide(). Of one that never ran, nothing while the worker stops: it stays
  // queued in the catalog, for the next worker.
  void perform(const LiveInvocation& live, const InvocationResult& result,
               const asynchronous::FollowUp& follow_up);

  // One of an earlier worker that is not due yet.
  void wait(const catalog::AsyncInvocation& pending);
  // It was accepted: it ends if it still waits when its event is too old.
  void watch_age(LiveInvocation& live);
  // One of an earlier worker that cannot run.
  void give_up(const catalog::AsyncInvocation& pending, Error error);

  // It has its outcome, if it waits here. False: it does not.
  bool cancel(TenantId tenant, InvocationId id);

  // An invocation that waits for its next run.
  struct Waiting {
    FunctionName function = {};
    FunctionId id = {};
    unsigned runs = 0;
    unsigned put_off = 0;
    unsigned chain = 0;
    Duration submitted_at{};  // since the Unix epoch
    Duration due_at{};        // the same
    std::string last_failure = {};
    bool durable = false;  // the catalog has it
    bool is_read = false;  // its request is on its way here
  };
  // Null: it does not wait.
  const Waiting* find(TenantId tenant, InvocationId id) const;
  // Of a tenant, those that are due first, at most so many.
  std::vector<std::pair<InvocationId, const Waiting*>> some(TenantId tenant, size_t most) const;
  size_t waiting() const { return waiting_.size(); }
  size_t waiting(FunctionId function) const;
  unsigned most_attempts() const { return setting_.most_attempts; }
  // How often it may run in all, as things are.
  unsigned most_runs(const FunctionName& function) const;

 private:
  using Due = std::pair<Duration, InvocationId>;

  asynchronous::Rules rules_of(const FunctionName& function) const;
  const AsyncSettings& settings_of(const FunctionName& function) const;
  Duration now() const { return uses_.loop.clock().wall_now(); }

  static Waiting waiting_of(const catalog::AsyncInvocation& pending);
  // As if it were live, to be ended.
  static LiveInvocation live_of(InvocationId id, const Waiting& waiting);
  void try_again(const LiveInvocation& live, const InvocationResult& result, Duration in);
  void store_retry(InvocationId id);
  void add(InvocationId id, Waiting waiting);
  Waiting take(InvocationId id);
  void plan();
  void look();
  void end_too_old();
  void read(InvocationId id);
  void resume(InvocationId id, Result<std::optional<catalog::AsyncInvocation>> pending);

  void finish(const LiveInvocation& live, InvocationResult result,
              const asynchronous::FollowUp& follow_up);
  // What tells its destination, and a note of that in the result; nothing if none is told.
  std::optional<catalog::AsyncSuccessor> successor_of(const LiveInvocation& live,
                                                      InvocationResult& result,
                                                      asynchronous::Condition condition);
  Result<const FunctionSpec*> find_destination(const LiveInvocation& live, const std::string& name);
  void store_result(TenantId tenant, InvocationResult result,
                    std::optional<catalog::AsyncSuccessor> successor);
  void begin(const catalog::AsyncSuccessor& successor);

  const Dependencies uses_;
  const Setting setting_;
  std::unordered_map<InvocationId, Waiting> waiting_;
  std::set<Due> due_;  // of these, those that are in the catalog and not on their way here
  std::unordered_map<FunctionId, size_t> counts_;
  std::set<Due> ages_;  // when events are too old, of functions that say so
  size_t reads_ = 0;
  loop::TimerId timer_;
};

}  // namespace lambent::worker
