#include "edge/cli/replay_run.h"

#include <algorithm>
#include <unordered_map>

#include "core/loop/event_loop.h"
#include "edge/cli/answer.h"
#include "edge/cli/api_error.h"
#include "edge/cli/function_request.h"
#include "edge/cli/gauge.h"
#include "edge/cli/request_pool.h"

namespace lambent::cli {
namespace {

using workload::Arrival;
using workload::RunOutcome;
using workload::RunRecord;

constexpr std::string_view kUtilisation = "lambent_gpu_utilization_ratio";
// Answers are waited for as long as the run lasts; the give-up time ends it.
constexpr Duration kRequestTimeout = std::chrono::hours(24);

class Replay {
 public:
  Replay(workload::ArrivalSource& arrivals, const ReplayRunOptions& options,
         const ReplayRunSinks& sinks)
      : arrivals_(arrivals),
        options_(options),
        sinks_(sinks),
        loop_(clock_),
        // One more than may be outstanding, for the readings of /metrics.
        pool_(loop_, options.destination, options.most_outstanding + 1),
        start_(clock_.now()) {}

  ReplayRunTotals run() {
    next_ = arrivals_.next();
    plan_next();
    read_devices();
    while (!finished_) loop_.run_once(seconds(1));
    if (timer_armed_) loop_.cancel(reading_timer_);
    for (const auto& [id, waiting] : waiting_) record_unanswered(waiting, RunOutcome::kUnfinished);
    totals_.unfinished = waiting_.size();
    totals_.elapsed_s = modelled(last_ - start_);
    return totals_;
  }

 private:
  struct Waiting {
    uint32_t function = 0;
    Instant meant_at{};
  };

  double modelled(Duration real) const { return to_seconds(real) * options_.time_scale; }
  Instant real_time_of(const Arrival& arrival) const {
    return start_ + from_seconds(to_seconds(arrival.at) / options_.time_scale);
  }

  void plan_next() {
    if (next_) {
      loop_.call_at(real_time_of(*next_), [this] { send_due(); });
      return;
    }
    if (waiting_.empty()) {
      finish();
      return;
    }
    loop_.call_after(from_seconds(options_.give_up_s / options_.time_scale), [this] { finish(); });
  }

  void finish() {
    if (finished_) return;
    finished_ = true;
    last_ = clock_.now();
  }

  void send_due() {
    while (next_ && real_time_of(*next_) <= clock_.now()) {
      send(*next_);
      next_ = arrivals_.next();
    }
    plan_next();
  }

  void send(const Arrival& arrival) {
    const Waiting waiting{arrival.function, real_time_of(arrival)};
    totals_.worst_lateness_s =
        std::max(totals_.worst_lateness_s, to_seconds(clock_.now() - waiting.meant_at));
    if (waiting_.size() == options_.most_outstanding) {
      ++totals_.dropped;
      ++errors_;
      record_unanswered(waiting, RunOutcome::kDropped);
      return;
    }
    http::Request request{
        .method = "POST",
        .target = function_target(options_.deployed_names[arrival.function], "/invocations")};
    request.headers.add("Content-Type", "application/json");
    request.body = "{}";
    const uint64_t id = totals_.sent++;
    waiting_.emplace(id, waiting);
    const bool sent = pool_.send(request, kRequestTimeout, [this, id](auto response) {
      take_answer(id, std::move(response));
    });
    CHECK(sent, "the pool has room for all that may be outstanding");
  }

  void take_answer(uint64_t id, Result<http::Response> response) {
    const Instant now = clock_.now();
    const auto found = waiting_.find(id);
    const Waiting waiting = found->second;
    waiting_.erase(found);
    ++answered_;
    RunRecord record = record_of(waiting);
    record.sample.latency_s = modelled(now - waiting.meant_at);
    if (!response.ok()) {
      record.outcome = RunOutcome::kFailed;
      record.error = response.error().message;
    } else {
      const Answer answer = answer_of(*response);
      record.invocation = answer.id;
      record.sample.in_time = answer.in_time;
      if (response->status >= 300) {
        record.outcome = RunOutcome::kRejected;
        record.error = to_string(error_of(*response));
      } else {
        take_phases(answer, record);
      }
    }
    record.sample.succeeded = record.outcome == RunOutcome::kSucceeded;
    if (!record.sample.succeeded) ++errors_;
    sinks_.record(record);
    last_ = now;
    if (!next_ && waiting_.empty()) finish();
  }

  void take_phases(const Answer& answer, RunRecord& record) const {
    if (answer.function_failed) {
      record.outcome = RunOutcome::kFunctionError;
      record.error = answer.payload.substr(0, 200);
      return;
    }
    if (!answer.phases || !answer.start) {
      record.outcome = RunOutcome::kFailed;
      record.error = "the answer does not tell its phases; is that a Lambent worker?";
      return;
    }
    record.sample.start = *answer.start;
    record.sample.queue_s = modelled(answer.phases->queue);
    record.sample.cold_s = modelled(answer.phases->sandbox + answer.phases->init);
    record.sample.memory_s = modelled(answer.phases->memory);
    record.sample.run_s = modelled(answer.phases->run);
  }

  RunRecord record_of(const Waiting& waiting) const {
    RunRecord record{.at_s = modelled(waiting.meant_at - start_)};
    record.sample.function = waiting.function;
    return record;
  }

  void record_unanswered(const Waiting& waiting, RunOutcome outcome) {
    RunRecord record = record_of(waiting);
    record.outcome = outcome;
    record.sample.succeeded = false;
    record.error = outcome == RunOutcome::kDropped
                       ? std::to_string(options_.most_outstanding) + " were outstanding"
                       : "no answer before the run gave up";
    sinks_.record(record);
  }

  void read_devices() {
    show_progress();
    pool_.send({.method = "GET", .target = "/metrics"}, seconds(10), [this](auto response) {
      if (finished_) return;
      workload::RunReading reading{.at_s = modelled(clock_.now() - start_),
                                   .in_flight = waiting_.size()};
      if (response.ok() && response->status == 200) {
        reading.utilisation = mean_of_gauge(response->body, kUtilisation);
      }
      sinks_.reading(reading);
    });
    timer_armed_ = true;
    reading_timer_ = loop_.call_after(options_.reading_every, [this] {
      timer_armed_ = false;
      read_devices();
    });
  }

  void show_progress() {
    const double at_s = modelled(clock_.now() - start_);
    const double share = options_.duration_s > 0 ? std::min(1.0, at_s / options_.duration_s) : 0;
    sinks_.progress({.at_s = at_s,
                     .share = share,
                     .sent = totals_.sent,
                     .answered = answered_,
                     .errors = errors_,
                     .in_flight = waiting_.size()});
  }

  workload::ArrivalSource& arrivals_;
  const ReplayRunOptions& options_;
  const ReplayRunSinks& sinks_;
  SystemClock clock_;
  loop::EventLoop loop_;
  RequestPool pool_;
  Instant start_;
  Instant last_ = start_;
  std::optional<Arrival> next_;
  std::unordered_map<uint64_t, Waiting> waiting_;
  loop::TimerId reading_timer_;
  bool timer_armed_ = false;
  bool finished_ = false;
  uint64_t answered_ = 0;
  uint64_t errors_ = 0;
  ReplayRunTotals totals_;
};

}  // namespace

ReplayRunTotals replay(workload::ArrivalSource& arrivals, const ReplayRunOptions& options,
                       const ReplayRunSinks& sinks) {
  return Replay(arrivals, options, sinks).run();
}

}  // namespace lambent::cli
