// EsgPolicy: a baseline. For what waits it searches the cheapest way to meet every deadline, over
// instances, shapes of slices and sizes of batches; a function is always on one slice, which it
// keeps while it is alive.
//
// Hui et al., "ESG" (HPDC 2024), as far as it applies to functions that are scheduled as a whole:
// its A* search with pruning by time and by cost. A batch takes what was measured of its size.
#pragma once

#include "decide/slice_scheduling/whole_functions.h"

namespace lambent::slice_scheduling {

struct EsgOptions {
  WholeFunctionsOptions whole;
  size_t depth = 4;          // requests that one search is about; a batch, if that is more
  size_t most_states = 512;  // that it looks at
  // Another instance is started if the queue would wait longer than this share of what the SLO
  // leaves beside the execution when the new one is ready.
  double slack = 0.25;
  // And if all have less capacity than this many times the rate of arrivals: queues are short only
  // where there is some to spare. 0: never for that.
  double headroom = 2;
};

// How one search would serve the oldest requests: each step the next `requests` of the queue.
struct EsgStep {
  size_t resource = 0;  // into what was searched over
  size_t requests = 1;
};
// A number of requests that run together, and how long they take.
struct EsgBatch {
  size_t requests = 1;
  Duration time{};
};
struct EsgResource {
  Instant free{};                 // when it can begin
  std::vector<EsgBatch> batches;  // those that are looked at, ascending from one request
  double cost_per_s = 0;
};
// The cheapest steps by which all of these requests, in the order of their deadlines, meet them;
// empty: there are none (or they were not found among so many states).
std::vector<EsgStep> esg_search(const std::vector<Instant>& deadlines,
                                const std::vector<EsgResource>& resources, size_t most_states);

class EsgPolicy final : public SlicePolicy {
 public:
  EsgPolicy(Placer placer, EsgOptions options)
      : functions_(std::move(placer), options.whole), options_(options) {}

  std::string_view name() const override { return "esg"; }
  void decide(const SliceWorld& world, Instant now, std::vector<Decision>& decisions) override;

 private:
  void serve(const SliceWorld& world, const FunctionState& function, Instant now,
             std::vector<Decision>& decisions);
  void scale_out(const SliceWorld& world, const FunctionState& function, Instant now,
                 std::vector<Decision>& decisions);

  WholeFunctions functions_;
  const EsgOptions options_;
};

}  // namespace lambent::slice_scheduling
