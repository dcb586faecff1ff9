// FollowUp: what follows the end of a run of an asynchronous invocation: another run, or its
// outcome and what a destination is told. Pure; used by the worker and by scenarios.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/time.h"
#include "core/domain/function.h"
#include "core/domain/invocation.h"

namespace lambent::asynchronous {

// How it came that one does not run any more.
enum class End {
  kSucceeded,
  kFailed,     // it ran: the handler reported an error, crashed, or exceeded a limit
  kPutOff,     // it did not run, for a reason that passes: no room, no device at present
  kRefused,    // it cannot run: what it needs is lost, or workers ended under it too often
  kExpired,    // it waited until its event was too old
  kCancelled,  // by its tenant
};
End end_of(const InvocationResult& result, bool cancelled);

struct Rules {
  unsigned retries = 0;                // runs after the first one, at most
  Duration max_age = kUsualMaxAge;     // of the event when a run of it begins
  Duration first_delay = kUsualDelay;  // before the first retry; it doubles with each other one
  static constexpr Duration kUsualMaxAge = std::chrono::hours(6);
  static constexpr Duration kUsualDelay = std::chrono::minutes(1);
};
// As a function says, and where it says nothing, as the worker does.
Rules rules_of(const AsyncSettings& settings, const Rules& of_worker);

// Before this end.
struct History {
  unsigned runs = 0;     // that ended
  unsigned put_off = 0;  // how often it was put off since the last one
  Duration age{};        // since it was submitted, until now
};

// Lambda's words for why a destination is told.
enum class Condition { kSuccess, kRetriesExhausted, kEventAgeExceeded };
std::string_view name_of(Condition condition);  // "Success", "RetriesExhausted", ...

struct FollowUp {
  unsigned runs = 0;                        // that ended, this one included
  std::optional<Duration> again_in = {};    // it is tried again after so long; none: it is over
  std::optional<Condition> condition = {};  // of what is over; none: no destination is told
};
FollowUp decide(End end, const History& history, const Rules& rules);

// The function that is told; empty: none is.
const std::string& destination_of(const AsyncSettings& settings, Condition condition);
// Whether an invocation that `chain` destinations led to may lead to one more. A loop of
// destinations ends there.
bool may_lead_on(unsigned chain);

}  // namespace lambent::asynchronous
