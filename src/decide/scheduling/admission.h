// Admission: which newcomers wait and which are refused at once, so that a function that asks for
// more than its share makes only itself wait. Pure; called by Dispatcher when an
// invocation is submitted.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/time.h"
#include "core/base/units.h"
#include "decide/scheduling/flow.h"

namespace lambent::scheduling {

// One that is not set does not bound.
struct QueueLimits {
  size_t per_function = kNoLimit;
  // Of all functions together. No queue may be longer than what it leaves free of these, so that
  // there is always room for a function that has nothing waiting: one that floods gets at most a
  // half, two get a third each.
  size_t all = kNoLimit;
  size_t synchronous = kNoLimit;  // the same of those for which a client holds a connection
  // The same of the payloads of all that waits or runs.
  Bytes payloads{std::numeric_limits<uint64_t>::max()};
  // A synchronous one that is expected to wait longer than this for its turn is refused, if
  // kAlwaysAdmitted or more of its function wait already.
  Duration wait = kForever;

  static constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();
  static constexpr Duration kForever = Duration::max();
};

// A burst of so many waits, however long that takes.
constexpr size_t kAlwaysAdmitted = 32;
// With fewer than so many waiting a function that shed does so no more.
constexpr size_t kCalm = kAlwaysAdmitted / 2;
// From so many turns on their mean is believed.
constexpr uint64_t kTurnsToBelieve = 16;
// Longer than this no client is told to stay away; at least a second.
constexpr Duration kLongestRetryAfter = std::chrono::minutes(5);

struct QueueTotals {
  size_t all = 0;          // waiting, of all functions
  size_t synchronous = 0;  // of these
  Bytes payloads;          // of what waits or runs
};

// What waits of one function, wherever that is.
struct FunctionQueue {
  size_t waiting = 0;
  size_t synchronous = 0;  // of these
  Bytes payloads;          // of what waits or runs
  // What one place in it takes to come up; zero: that is not known.
  Duration turn{};
};

// What one place in the flow's queue takes to come up: measured over its last turns while more
// waited, which has its share of the devices in it; before that, and once that is long ago
// (Flow::begin_queue), at best one run after the other.
// Zero: nothing is known.
Duration turn_estimate(const Flow& flow);

// What waits in the flow's queue.
FunctionQueue queue_of(const Flow& flow);

struct Newcomer {
  bool asynchronous = false;
  bool within_run = false;  // a call of a workflow: no client holds a connection for it
  Bytes payload{};
};

// Which limit refused it: the error's type, "Overload." and the limit.
inline constexpr std::string_view kOverloadPrefix = "Overload.";

struct Refusal {
  std::string message;     // names the limit
  Duration retry_after{};  // by then half of what waits is expected to be gone
  std::string_view error_type;
};

// Why the next invocation of a function with this queue may not wait; none: it may.
std::optional<Refusal> refusal_of(const Newcomer& newcomer, const FunctionQueue& queue,
                                  const QueueTotals& waiting, const QueueLimits& limits);

// When it is worth trying again if that is what has to pass first.
Duration retry_after(Duration first);

}  // namespace lambent::scheduling
