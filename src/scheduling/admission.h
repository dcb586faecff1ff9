// Admission: which newcomers wait and which are refused at once, so that a function that asks for
// more than its share makes itself wait and nobody else. Pure; called by Dispatcher when an
// invocation is submitted.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/time.h"
#include "scheduling/flow.h"

namespace lambent::scheduling {

struct QueueLimits {
  size_t per_function = 0;
  // Of all functions together. No queue may be longer than what it leaves free of these, so that
  // there is always room for a function that has nothing waiting: one that floods gets at most a
  // half, two get a third each.
  size_t all = 0;
  size_t synchronous = 0;  // the same of those whose client waits for the answer
  // A synchronous one that is expected to wait longer than this for its turn is refused, if
  // kAlwaysAdmitted or more of its function wait already.
  Duration wait = kForever;

  static constexpr Duration kForever = Duration::max();
};

// A burst of so many waits, however long that takes.
constexpr size_t kAlwaysAdmitted = 32;
// With fewer than so many waiting a function that shed does so no more.
constexpr size_t kCalm = kAlwaysAdmitted / 2;
// From so many turns on their mean is believed.
constexpr uint64_t kTurnsToBelieve = 16;
// Longer than this nobody is told to stay away; at least a second.
constexpr Duration kLongestRetryAfter = std::chrono::minutes(5);

struct QueueTotals {
  size_t all = 0;          // waiting, of all functions
  size_t synchronous = 0;  // of these
};

// What one place in the flow's queue takes to come up: measured over its last turns while more
// waited, which has its share of the devices in it; before that, and once that is long ago
// (Flow::begin_queue), at best one run after the other.
// Zero: nothing is known.
Duration turn_estimate(const Flow& flow);

struct Refusal {
  std::string message;     // names the limit
  Duration retry_after{};  // by then half of what waits is expected to be gone
};

// Why the next invocation of this flow may not wait; none: it may.
std::optional<Refusal> refusal_of(const Flow& flow, bool asynchronous, const QueueTotals& waiting,
                                  const QueueLimits& limits);

}  // namespace lambent::scheduling
