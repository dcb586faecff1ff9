// LeastLatency: what no order of a workload's calls can have a lower mean latency than. Used by the
// simulator, for a figure beside its policies. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

#include "core/base/time.h"

namespace lambent::workload {

// It assumes that each call and what it takes is known before it comes; that everything is warm and
// in place; that a run may be interrupted at any time for nothing; and that a single run may have
// all that the devices do together at their best. Under these the shortest remaining work first has
// the least mean, whatever the arrivals are (Schrage, 1968). No real schedule has any of that, so
// this is a bound and no estimate: how near one can come to it is not said. Nor is a latency less
// than the work by itself; the bound is the greater of the two means.
class LeastLatency {
 public:
  // `rate`: the work that all devices together do in a second at their best, in seconds of a run by
  // itself. Above 0.
  explicit LeastLatency(double rate) : rate_(rate) {}

  // A call that comes then, not before the one added last, and takes so long by itself on an idle
  // device.
  void add(Duration at, Duration work);
  // Of all that were added; nothing if there were none. No call is added afterwards.
  std::optional<double> mean_s();

 private:
  void work_until(double at_s);

  double rate_;
  double now_s_ = 0;
  uint64_t count_ = 0;
  double arrivals_s_ = 0, ends_s_ = 0, work_s_ = 0;  // sums
  // What is left of each, the least on top.
  std::priority_queue<double, std::vector<double>, std::greater<>> left_s_;
};

}  // namespace lambent::workload
