#include "sim/workload/resampled.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/random.h"
#include "sim/workload/limits.h"

namespace lambent::workload {
namespace {

Error too_many() {
  return Error{ErrorCode::kResourceExhausted,
               "to draw arrivals again they are held in memory, of which there may be " +
                   std::to_string(limits::kTraceArrivals) +
                   "; choose a shorter window, fewer functions or a lower rate"};
}

// Of one function; runs only where the trace has run times.
struct Recorded {
  std::vector<Duration> times;
  std::vector<float> runs;
};

Result<std::vector<Recorded>> arrivals_by_function(Trace& trace) {
  std::vector<Recorded> all(trace.functions.size());
  size_t held = 0;
  while (const auto arrival = trace.arrivals->next()) {
    if (++held > limits::kTraceArrivals) return too_many();
    all[arrival->function].times.push_back(arrival->at);
    if (trace.has_run_times) all[arrival->function].runs.push_back(arrival->execution_s);
  }
  if (auto failure = trace.arrivals->failure()) return *std::move(failure);
  return all;
}

// Sorted. They add up to the length, so that their mean is the mean time from one to the next.
std::vector<Duration> gaps_between(const std::vector<Duration>& times, Duration length) {
  std::vector<Duration> gaps;
  gaps.reserve(times.size());
  for (size_t i = 1; i < times.size(); ++i) gaps.push_back(times[i] - times[i - 1]);
  gaps.push_back(length - times.back() + times.front());
  std::sort(gaps.begin(), gaps.end());
  return gaps;
}

// Where in the first gap the window begins: a long gap holds a random instant more often.
Duration first_arrival(const std::vector<Duration>& gaps, Duration length, Random& random) {
  auto within = Duration(static_cast<int64_t>(random.below(static_cast<uint64_t>(length.count()))));
  for (const Duration gap : gaps) {
    if (within < gap) return gap - within;
    within -= gap;
  }
  return length;
}

}  // namespace

Result<Trace> resample(Trace trace, uint64_t seed) {
  if (trace.length <= Duration::zero()) {
    return Error{ErrorCode::kInvalidArgument,
                 "arrivals can be drawn again only over a window that is longer than nothing"};
  }
  ASSIGN_OR_RETURN(const auto recorded, arrivals_by_function(trace));
  SeededRandom seeds(seed);
  std::vector<Arrival> drawn;
  for (uint32_t function = 0; function < recorded.size(); ++function) {
    SeededRandom random(seeds.next());
    const auto& [times, runs] = recorded[function];
    if (times.empty()) continue;
    const std::vector<Duration> gaps = gaps_between(times, trace.length);
    Duration at = first_arrival(gaps, trace.length, random);
    for (; at < trace.length; at += gaps[random.below(gaps.size())]) {
      if (drawn.size() == limits::kTraceArrivals) return too_many();
      drawn.push_back({.at = at, .function = function});
      if (!runs.empty()) drawn.back().execution_s = runs[random.below(runs.size())];
    }
  }
  trace.arrivals = source_of(std::move(drawn));
  trace.name += "-resampled";
  trace.format = "resampled";
  return trace;
}

}  // namespace lambent::workload
