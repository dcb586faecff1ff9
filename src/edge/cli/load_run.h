// LoadRun: sends requests to a worker as fast as clients get answers (offline), or at the times of
// a Poisson process however long the answers take (online). One thread; used by load.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/time.h"
#include "core/domain/invocation.h"
#include "edge/cli/credentials.h"
#include "edge/cli/limits.h"

namespace lambent::cli {

struct LoadRunOptions {
  Destination destination;
  // Client i calls function i modulo their number.
  std::vector<std::string> functions;
  unsigned clients = 1;
  // Offline: requests that each client has under way.
  unsigned outstanding = 1;
  // Online: requests a second, of all clients together; zero: offline.
  double rate = 0;
  double seconds = 10;         // that are counted
  double warm_up_seconds = 1;  // before them, that are not
  // Online: those beyond are counted, not sent.
  size_t most_outstanding = limits::kReplayOutstanding;
  // How long answers are waited for after the last request.
  double give_up_seconds = 60;
  std::string payload = "{}";
  std::string content_type = "application/json";
  uint64_t seed = 1;
};

// What is counted as an error without having a code: what a function itself says, and requests
// without a latency, for how long they would have taken is unknown.
inline constexpr std::string_view kFunctionError = "FUNCTION_ERROR";
inline constexpr std::string_view kUnanswered = "UNANSWERED";
inline constexpr std::string_view kDropped = "DROPPED";

struct LoadTotals {
  double seconds = 0;  // that were counted
  uint64_t sent = 0;   // counted or not
  // Of what counts: offline what was answered in that time, online what was meant to be sent in it.
  uint64_t succeeded = 0;
  std::map<std::string, uint64_t, std::less<>> errors;  // by code, or by one of these names
  std::map<std::string, std::string> first_errors;      // what the first of each said
  std::map<std::string, uint64_t> starts;               // of those that succeeded, by class
  // Of functions with an SLO, by what the worker says: also what failed, which is late.
  uint64_t in_time = 0, late = 0;
  std::vector<double> latencies_s;  // of those that succeeded, sorted
  // Online: the largest delay between the time a request was meant to be sent and the one it was
  // sent at. Above a few milliseconds this machine could not keep the pace.
  double worst_lateness_s = 0;
  // Online: from when the first that counts was meant to be sent to the last answer. Nothing where
  // some were dropped or not answered.
  std::optional<double> makespan_s;

  uint64_t failed() const;
  // The share, 0 to 1, that was dropped or not answered: latencies without those look too good.
  double left_out() const;
  double throughput() const { return seconds > 0 ? static_cast<double>(succeeded) / seconds : 0; }
  // 0 to 1; nothing if no function has an SLO.
  std::optional<double> slo_hit_ratio() const;
  // Nearest rank, 0 to 1; zero if nothing succeeded.
  double latency_at(double share) const;
};

// Blocks until all is answered or given up. `progress` gets what was answered so far, now and then.
LoadTotals run_load(const LoadRunOptions& options, const std::function<void(uint64_t)>& progress);

}  // namespace lambent::cli
