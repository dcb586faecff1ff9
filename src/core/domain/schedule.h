// Schedule: when a function is invoked by itself, and with what. Values and pure functions, any
// thread; the worker begins their invocations (node/worker/scheduled_invocations.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"

namespace lambent {

// One of `cron` and `rate` is given.
struct Schedule {
  std::string name;       // among those of its function
  std::string cron;       // five fields, as crontab(5) has them: "*/5 * * * *"
  std::string rate;       // "5 minutes", as EventBridge has it
  std::string timezone;   // of `cron`, an IANA name; empty: UTC
  std::string payload;    // the event, JSON; empty: one that tells of the firing
  bool catch_up = false;  // the last firing that was missed is made up for
  bool enabled = true;    // otherwise it stays, and nothing is begun

  bool operator==(const Schedule&) const = default;
};
using Schedules = std::vector<Schedule>;

// As tags and the catalog have them: a list as JSON, or nothing.
std::string text_of(const Schedules& schedules);
// The schedules of such a text. INVALID_ARGUMENT if it is none; they may still be invalid.
Result<Schedules> parse_schedules(std::string_view text);

// INVALID_ARGUMENT, naming the schedule: too many, a bad or double name, not one of cron and rate,
// a payload that is no JSON. Whether the time zone exists, only a machine knows.
Result<void> validate(const Schedules& schedules);

// The interval of a rate such as "5 minutes", "1 hour" or "2 days". INVALID_ARGUMENT.
Result<std::chrono::seconds> parse_rate(std::string_view text);

}  // namespace lambent
