// The scheduler's settings as users write them: KEY=VALUE, with a message that lists the keys for
// what is unknown. Used by mains.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "decide/dispatch/options.h"
#include "decide/scheduling/make_policy.h"

namespace lambent {

struct SchedulerSettings {
  scheduling::PolicyOptions policy;
  dispatch::DispatchOptions dispatch;
};

// "auto", or seconds, of which 0 is no bound.
std::optional<Duration> queue_time_from(const std::string& text);

// What `lambent serve` and `lambent simulate` have unless told otherwise, where that is not what
// the papers' policies have.
SchedulerSettings default_settings();

// Applies each KEY=VALUE on top of `settings`. Durations are in seconds. INVALID_ARGUMENT for an
// unknown key or a bad value.
Result<void> apply_settings(const std::vector<std::string>& texts, SchedulerSettings& settings);

// "concurrency", "over_run_s", "anticipation" for D, T, alpha, as the papers call them; another
// name stays as it is.
std::string parameter_name(const std::string& name);

// Divides the scheduler's own durations, and those that `policy` has by itself, by the emulated
// GPU's time scale, so that they mean modelled seconds.
void scale_time(double time_scale, std::string_view policy, SchedulerSettings& settings);

}  // namespace lambent
