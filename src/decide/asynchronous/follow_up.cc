#include "decide/asynchronous/follow_up.h"

#include <algorithm>

#include "core/domain/async_limits.h"

namespace lambent::asynchronous {
namespace {

// Of what was put off: one second, then twice as long each time, as Lambda does after a throttle.
constexpr Duration kLeastPutOff = seconds(1);
constexpr Duration kMostPutOff = std::chrono::minutes(5);

Duration doubled(Duration first, unsigned times, Duration most) {
  Duration delay = first;
  for (unsigned i = 0; i < times && delay < most; ++i) delay *= 2;
  return std::min(delay, most);
}

// Its next run would begin when its event is too old: that is known now.
FollowUp again_unless_too_old(unsigned runs, Duration delay, const History& history,
                              const Rules& rules) {
  if (history.age + delay > rules.max_age) {
    return {.runs = runs, .condition = Condition::kEventAgeExceeded};
  }
  return {.runs = runs, .again_in = delay};
}

}  // namespace

End end_of(const InvocationResult& result, bool cancelled) {
  if (result.outcome == Outcome::kSucceeded) return End::kSucceeded;
  if (cancelled) return End::kCancelled;
  if (result.outcome == Outcome::kFunctionError) return End::kFailed;
  if (result.error_type == kEventTooOldErrorType) return End::kExpired;
  // Given up after workers that ended, which is no want of room.
  const ErrorCode code = result.error ? result.error->code : ErrorCode::kUnknown;
  const bool passes = code == ErrorCode::kUnavailable || code == ErrorCode::kResourceExhausted;
  return passes ? End::kPutOff : End::kRefused;
}

Rules rules_of(const AsyncSettings& settings, const Rules& of_worker) {
  Rules rules = of_worker;
  if (settings.retries >= 0) rules.retries = static_cast<unsigned>(settings.retries);
  if (settings.max_age_s > 0) rules.max_age = from_seconds(settings.max_age_s);
  return rules;
}

std::string_view name_of(Condition condition) {
  switch (condition) {
    case Condition::kSuccess:
      return "Success";
    case Condition::kRetriesExhausted:
      return "RetriesExhausted";
    case Condition::kEventAgeExceeded:
      break;
  }
  return "EventAgeExceeded";
}

FollowUp decide(End end, const History& history, const Rules& rules) {
  const unsigned runs = history.runs;
  switch (end) {
    case End::kSucceeded:
      return {.runs = runs + 1, .condition = Condition::kSuccess};
    case End::kFailed:
      if (runs >= rules.retries) {
        return {.runs = runs + 1, .condition = Condition::kRetriesExhausted};
      }
      return again_unless_too_old(runs + 1, doubled(rules.first_delay, runs, rules.max_age),
                                  history, rules);
    case End::kPutOff:
      return again_unless_too_old(runs, doubled(kLeastPutOff, history.put_off, kMostPutOff),
                                  history, rules);
    case End::kRefused:
      return {.runs = runs, .condition = Condition::kRetriesExhausted};
    case End::kExpired:
      return {.runs = runs, .condition = Condition::kEventAgeExceeded};
    case End::kCancelled:
      break;
  }
  return {.runs = runs};
}

const std::string& destination_of(const AsyncSettings& settings, Condition condition) {
  return condition == Condition::kSuccess ? settings.on_success : settings.on_failure;
}

bool may_lead_on(unsigned chain) { return chain < limits::kDestinationChain; }

}  // namespace lambent::asynchronous
