#include "edge/cli/load_run.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "core/base/random.h"
#include "core/loop/event_loop.h"
#include "edge/cli/answer.h"
#include "edge/cli/api_error.h"
#include "edge/cli/function_request.h"
#include "edge/cli/request_pool.h"

namespace lambent::cli {
namespace {

// Answers are waited for as long as the run lasts; the give-up time ends it.
constexpr Duration kRequestTimeout = std::chrono::hours(24);
constexpr Duration kProgressEvery = milliseconds(500);

class LoadRun {
 public:
  LoadRun(const LoadRunOptions& options, const std::function<void(uint64_t)>& progress)
      : options_(options),
        progress_(progress),
        loop_(clock_),
        random_(options.seed),
        pool_(loop_, options.destination, most_outstanding()),
        start_(clock_.now()),
        counts_from_(start_ + from_seconds(options.warm_up_seconds)),
        ends_(counts_from_ + from_seconds(options.seconds)) {}

  LoadTotals run() {
    totals_.seconds = options_.seconds;
    if (options_.rate > 0) {
      meant_at_ = start_;
      plan_arrival();
    } else {
      for (unsigned client = 0; client < options_.clients; ++client) {
        for (unsigned i = 0; i < options_.outstanding; ++i) send(client, clock_.now());
      }
    }
    loop_.call_at(ends_, [this] { stop_sending(); });
    show_progress();
    while (!finished_) loop_.run_once(seconds(1));
    for (const auto& [id, waiting] : waiting_) {
      if (counts(waiting, ends_)) note_error(kUnanswered, "no answer before the run gave up");
    }
    if (first_meant_at_ && totals_.left_out() == 0) {
      totals_.makespan_s = to_seconds(last_answered_ - *first_meant_at_);
    }
    std::sort(totals_.latencies_s.begin(), totals_.latencies_s.end());
    return std::move(totals_);
  }

 private:
  struct Waiting {
    unsigned client = 0;
    Instant meant_at{};
  };

  size_t most_outstanding() const {
    return options_.rate > 0 ? options_.most_outstanding
                             : size_t{options_.clients} * options_.outstanding;
  }
  bool counts(const Waiting& waiting, Instant answered) const {
    const Instant decides = options_.rate > 0 ? waiting.meant_at : answered;
    return decides >= counts_from_ && decides <= ends_;
  }

  // ---- Online

  void plan_arrival() {
    meant_at_ += from_seconds(-std::log(1 - random_.uniform()) / options_.rate);
    if (meant_at_ >= ends_) {
      all_sent_ = true;
      finish_when_answered();
      return;
    }
    loop_.call_at(meant_at_, [this] { send_due(); });
  }

  void send_due() {
    const auto client = static_cast<unsigned>(random_.below(options_.clients));
    totals_.worst_lateness_s =
        std::max(totals_.worst_lateness_s, to_seconds(clock_.now() - meant_at_));
    if (waiting_.size() < options_.most_outstanding) {
      send(client, meant_at_);
    } else if (counts({client, meant_at_}, meant_at_)) {
      note_error(kDropped, std::to_string(options_.most_outstanding) + " were outstanding");
    }
    plan_arrival();
  }

  // ---- Both

  void send(unsigned client, Instant meant_at) {
    http::Request request{
        .method = "POST",
        .target = function_target(options_.functions[client % options_.functions.size()],
                                  "/invocations")};
    request.headers.add("Content-Type", options_.content_type);
    request.body = options_.payload;
    const uint64_t id = totals_.sent++;
    waiting_.emplace(id, Waiting{client, meant_at});
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
    if (counts(waiting, now)) note(waiting, now, response);
    if (stopped_ && all_sent_ && waiting_.empty()) finished_ = true;
    if (stopped_ || options_.rate > 0) return;
    // A worker that cannot be reached, or takes no more, is not asked again at once.
    const bool refused = !response.ok() || response->status >= 300;
    if (refused) {
      loop_.call_after(milliseconds(10), [this, client = waiting.client] {
        if (!stopped_) send(client, clock_.now());
      });
    } else {
      send(waiting.client, now);
    }
  }

  void note(const Waiting& waiting, Instant now, const Result<http::Response>& response) {
    if (options_.rate > 0) {
      first_meant_at_ = std::min(first_meant_at_.value_or(waiting.meant_at), waiting.meant_at);
      last_answered_ = now;
    }
    if (!response.ok()) {
      note_error(name_of(response.error().code), response.error().message);
      return;
    }
    const Answer answer = answer_of(*response);
    if (answer.in_time) ++(*answer.in_time ? totals_.in_time : totals_.late);
    if (response->status >= 300) {
      const Error error = error_of(*response);
      note_error(name_of(error.code), error.message);
      return;
    }
    if (answer.function_failed) {
      note_error(kFunctionError, answer.payload.substr(0, 200));
      return;
    }
    ++totals_.succeeded;
    ++totals_.starts[answer.start ? std::string(name_of(*answer.start)) : "unknown"];
    totals_.latencies_s.push_back(to_seconds(now - waiting.meant_at));
  }

  void note_error(std::string_view code, const std::string& message) {
    ++totals_.errors[std::string(code)];
    totals_.first_errors.emplace(code, message);
  }

  void stop_sending() {
    stopped_ = true;
    if (options_.rate == 0) all_sent_ = true;
    finish_when_answered();
  }

  // After the end, once nothing is left to be sent: online the last ones may be late.
  void finish_when_answered() {
    if (!stopped_ || !all_sent_) return;
    if (waiting_.empty()) {
      finished_ = true;
      return;
    }
    loop_.call_after(from_seconds(options_.give_up_seconds), [this] { finished_ = true; });
  }

  void show_progress() {
    if (progress_) progress_(answered_);
    loop_.call_after(kProgressEvery, [this] { show_progress(); });
  }

  const LoadRunOptions& options_;
  const std::function<void(uint64_t)>& progress_;
  SystemClock clock_;
  loop::EventLoop loop_;
  SeededRandom random_;
  RequestPool pool_;
  Instant start_, counts_from_, ends_;
  Instant meant_at_{};                     // the next request, online
  std::optional<Instant> first_meant_at_;  // of those that count and were answered, online
  Instant last_answered_{};
  std::unordered_map<uint64_t, Waiting> waiting_;
  uint64_t answered_ = 0;
  bool stopped_ = false;   // its time is over
  bool all_sent_ = false;  // or dropped
  bool finished_ = false;
  LoadTotals totals_;
};

}  // namespace

uint64_t LoadTotals::failed() const {
  uint64_t sum = 0;
  for (const auto& [code, count] : errors) sum += count;
  return sum;
}

double LoadTotals::left_out() const {
  uint64_t without_latency = 0;
  for (const std::string_view code : {kUnanswered, kDropped}) {
    if (const auto found = errors.find(code); found != errors.end()) {
      without_latency += found->second;
    }
  }
  return without_latency == 0
             ? 0
             : static_cast<double>(without_latency) / static_cast<double>(succeeded + failed());
}

std::optional<double> LoadTotals::slo_hit_ratio() const {
  if (in_time + late == 0) return std::nullopt;
  return static_cast<double>(in_time) / static_cast<double>(in_time + late);
}

double LoadTotals::latency_at(double share) const {
  if (latencies_s.empty()) return 0;
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(latencies_s.size())));
  return latencies_s[std::min(latencies_s.size() - 1, rank == 0 ? 0 : rank - 1)];
}

LoadTotals run_load(const LoadRunOptions& options, const std::function<void(uint64_t)>& progress) {
  return LoadRun(options, progress).run();
}

}  // namespace lambent::cli
