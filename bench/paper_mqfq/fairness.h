// The service gap: how evenly the device's time goes to functions that all have work. Pure; used by
// run_once and its test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lambent::paper_mqfq {

// Of one invocation: its function had work from `submitted_s` on because of it, and it was at work
// on the device from `ran_s` to `completed_s`.
struct Span {
  uint32_t function = 0;
  double submitted_s = 0, ran_s = 0, completed_s = 0;
};

constexpr double kServiceWindow_s = 30;

// Cuts time into windows of 30 s. In each, of the functions that had work throughout, how much more
// time on the device the one with most had than the one with least; the mean over the windows in
// which there are two of them, 0 if there is none. Seconds.
double service_gap(std::vector<Span> spans, size_t functions);

}  // namespace lambent::paper_mqfq
