// ScheduledInvocations: begins the invocations that functions' schedules are due for. Each is an
// asynchronous invocation like any other. Used by the parts of Worker on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "core/domain/invocation_service.h"
#include "core/domain/timetable.h"
#include "core/loop/event_loop.h"
#include "core/metrics/worker_metrics.h"
#include "node/catalog/catalog.h"
#include "node/worker/drain.h"
#include "node/worker/time_zones.h"

namespace lambent::worker {

// What is due is begun once, also over restarts: the idempotency key of an invocation names its
// schedule and its instant, so that one which is submitted again is the one from before; and the
// catalog has the last of each schedule, from which the next worker goes on.
class ScheduledInvocations {
 public:
  using Submitted = std::function<void(Result<InvocationResult>)>;
  // All outlive it.
  struct Dependencies {
    loop::EventLoop& loop;
    LogSink& log;
    const Drain& drain;
    std::function<void(InvocationRequest, Submitted)> submit = {};
    std::function<void(catalog::FiringRecord)> save = {};  // durably, in the background
    // Of an invocation: nothing while it has no outcome; an error once that is forgotten.
    std::function<void(TenantId, InvocationId,
                       std::function<void(Result<std::optional<InvocationResult>>)>)>
        result_of = {};
  };

  explicit ScheduledInvocations(Dependencies dependencies) : uses_(std::move(dependencies)) {}
  ~ScheduledInvocations() { uses_.loop.cancel(timer_); }
  ScheduledInvocations(const ScheduledInvocations&) = delete;
  ScheduledInvocations& operator=(const ScheduledInvocations&) = delete;

  // Nothing is begun while it is false: another node of a cluster does. Empty: always true.
  // `keys_hold`: an idempotency key names one invocation for all nodes. Then what came due while
  // another node was to begin it is begun here too, once this one is to, within the grace time.
  void only_if(std::function<bool()> begins, bool keys_hold = false) {
    begins_ = std::move(begins);
    keys_hold_ = keys_hold;
  }
  // Which node begins them may have changed.
  void look_again() { look_within(Duration(0)); }
  // Invocations are submitted and found so from now on, wherever they run.
  void submit_by(decltype(Dependencies::submit) submit, decltype(Dependencies::result_of) find) {
    uses_.submit = std::move(submit);
    uses_.result_of = std::move(find);
  }
  // Goes by this time since the Unix epoch, which all nodes of a cluster have; nothing: it is not
  // known yet, and nothing is begun. Empty: this machine's clock.
  void go_by(std::function<std::optional<Duration>()> time) { time_ = std::move(time); }
  // Counts each against its tenant's rate before it is submitted; an error is a refusal, after
  // which it is tried again. Empty: none is counted.
  void admit_by(std::function<Result<void>(TenantId)> admits) { admits_ = std::move(admits); }
  // Of a function that an earlier worker had; reads the zones that it names. Blocks; before the
  // loop runs. Where a zone is no longer there, that schedule goes by UTC.
  void recover(const FunctionSpec& spec);
  // What earlier workers began; before the functions are put.
  void restore(std::vector<catalog::FiringRecord> firings);
  // Zones that functions name which are put later.
  void know(const TimeZones& zones) { zones_.insert(zones.begin(), zones.end()); }
  // The function as it is from now on. A schedule that stays as it was keeps its next instant; any
  // other counts from its deployment.
  void put(const FunctionSpec& spec);
  void remove(FunctionId function);

  // Of all tenants.
  std::vector<metrics::WorkerMetrics::ScheduleGauges> gauges() const;
  // Of a tenant, as JSON (GET /v1/schedules), with how the last invocations ended.
  void json(TenantId tenant, std::function<void(std::string)> done) const;

 private:
  using Key = std::pair<FunctionId, std::string>;
  struct Entry {
    FunctionName function;
    Schedule schedule;
    Timetable timetable;
    seconds deployed = {};
    std::optional<seconds> next = {};
    std::optional<seconds> last = {};
    std::optional<seconds> refused = {};          // to be submitted again
    std::optional<seconds> of_others = {};        // the last that another node was to begin
    std::optional<InvocationId> invocation = {};  // of the last
    uint64_t begun = 0;                           // by this worker
    uint64_t missed = 0;                          // instants, or runs of them, that were not begun
    std::string failure = {};                     // of the last submission
  };

  Duration time() const;
  seconds wall() const;
  // The first instant after its deployment and after the last that was begun.
  std::optional<seconds> first_of(const Entry& entry) const;
  Entry entry_of(const FunctionSpec& spec, const Schedule& schedule, Timetable timetable,
                 const Entry* before) const;
  // How long from now until there may be something to do of it.
  Duration sleep_of(const Entry& entry) const;
  // The next look comes no later. Asks no other entry: deploying many functions with schedules
  // costs the same for each.
  void look_within(Duration sleep);
  void look();
  // What is to be begun of it now.
  std::optional<seconds> due(Entry& entry, seconds now);
  void miss(Entry& entry, seconds instant);
  void begin(const Key& key, seconds due);
  void submitted(const Key& key, seconds due, const Result<InvocationResult>& result);

  Dependencies uses_;
  std::function<bool()> begins_;
  bool keys_hold_ = false;
  std::function<std::optional<Duration>()> time_;
  bool time_was_known_ = false;
  std::function<Result<void>(TenantId)> admits_;
  TimeZones zones_;
  std::map<Key, Entry> entries_;
  std::map<Key, catalog::FiringRecord> restored_;
  loop::TimerId timer_;
  Instant next_look_ = kNever;
};

// With what the worker's parts do for it. Both outlive it.
ScheduledInvocations::Dependencies schedule_uses(ScheduledInvocations::Dependencies uses,
                                                 catalog::Catalog& catalog,
                                                 InvocationService& invocations);

}  // namespace lambent::worker
