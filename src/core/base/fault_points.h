// FaultPoints: the steps of an asynchronous invocation at which a test stops a worker, to end it or
// what runs beside it exactly there (tests/integration/test_durability.py). Without a point of its
// own, which only that test gives a worker, it does nothing. Used on any thread.
#pragma once

#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/result.h"

namespace lambent {

// In the order in which an invocation passes them. What is "written" is in a transaction that is
// not committed; what is "durable" is committed, and no client was told.
enum class FaultPoint {
  kReceived,        // asked for; nothing is kept of it
  kRequestWritten,  // on the catalog's thread
  kRequestDurable,
  kDispatched,    // dispatch has it, and perhaps its sandbox; the client waits for its 202
  kAcknowledged,  // the 202 is on its way
  kResumed,       // by a worker that found it in the catalog: dispatch has it
  kSandboxAsked,  // for it: the launcher was told
  kPlaced,        // its sandbox is ready, and does not have it
  kAttemptWritten,
  kDelivered,     // its sandbox has it
  kAnswered,      // the sandbox's answer is here
  kRetryWritten,  // it failed and is tried again; on the catalog's thread
  kRetryDurable,
  kResultWritten,
  kResultDurable,
};

inline constexpr std::array<std::pair<std::string_view, FaultPoint>, 15> kFaultPoints = {{
    {"received", FaultPoint::kReceived},
    {"request_written", FaultPoint::kRequestWritten},
    {"request_durable", FaultPoint::kRequestDurable},
    {"dispatched", FaultPoint::kDispatched},
    {"acknowledged", FaultPoint::kAcknowledged},
    {"resumed", FaultPoint::kResumed},
    {"sandbox_asked", FaultPoint::kSandboxAsked},
    {"placed", FaultPoint::kPlaced},
    {"attempt_written", FaultPoint::kAttemptWritten},
    {"delivered", FaultPoint::kDelivered},
    {"answered", FaultPoint::kAnswered},
    {"retry_written", FaultPoint::kRetryWritten},
    {"retry_durable", FaultPoint::kRetryDurable},
    {"result_written", FaultPoint::kResultWritten},
    {"result_durable", FaultPoint::kResultDurable},
}};

class FaultPoints {
 public:
  enum class Action {
    kStop,  // the process gets SIGSTOP, and goes on after a SIGCONT
    kHold,  // the thread goes no further; all others do
  };

  FaultPoints(FaultPoint point, Action action) : point_(point), action_(action) {}
  // From POINT or POINT:hold. INVALID_ARGUMENT, with the names that there are.
  static Result<std::pair<FaultPoint, Action>> parse(std::string_view text);

  // The first time, if it is the point.
  void reach(FaultPoint point) {
    if (point == point_ && !reached_.exchange(true)) act();
  }

 private:
  void act() const;

  const FaultPoint point_;
  const Action action_;
  std::atomic<bool> reached_ = false;
};

// Null: there are none.
inline void reach(FaultPoints* faults, FaultPoint point) {
  if (faults != nullptr) faults->reach(point);
}

}  // namespace lambent
