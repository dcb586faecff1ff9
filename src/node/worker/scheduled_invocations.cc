#include "node/worker/scheduled_invocations.h"

#include <algorithm>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/json_text.h"

namespace lambent::worker {
namespace {

// The clock on the wall may be set: it is looked at again after so long.
constexpr seconds kLongestSleep = seconds(20);
// After a submission that was refused, as long as it is not too late.
constexpr Duration kTryAgain = seconds(1);
// A clock that goes back by more than this was wrong before: schedules follow it. After less, they
// wait until it is where it was.
constexpr seconds kClockSetBack = std::chrono::hours(1);

std::string in_utc(seconds instant) {
  const std::time_t time = instant.count();
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string payload_of(const Schedule& schedule, seconds due) {
  if (!schedule.payload.empty()) return schedule.payload;
  return nlohmann::json{{"schedule", schedule.name}, {"time", in_utc(due)}}.dump();
}

nlohmann::json instant_or_null(const std::optional<seconds>& instant) {
  return instant ? nlohmann::json(in_utc(*instant)) : nlohmann::json();
}

bool has_same_times(const Schedule& one, const Schedule& other) {
  return one.cron == other.cron && one.rate == other.rate && one.timezone == other.timezone &&
         one.enabled == other.enabled;
}

// Held by the callbacks that fill it in: the last one that goes answers.
struct ListAnswer {
  nlohmann::json rows = nlohmann::json::array();
  std::function<void(std::string)> done;

  explicit ListAnswer(std::function<void(std::string)> answer) : done(std::move(answer)) {}
  ListAnswer(const ListAnswer&) = delete;
  ListAnswer& operator=(const ListAnswer&) = delete;
  ~ListAnswer() { done(json_text(nlohmann::json{{"schedules", std::move(rows)}})); }
};

}  // namespace

Duration ScheduledInvocations::time() const {
  const Duration here = uses_.loop.clock().wall_now();
  return time_ ? time_().value_or(here) : here;
}

seconds ScheduledInvocations::wall() const { return std::chrono::floor<seconds>(time()); }

std::optional<seconds> ScheduledInvocations::first_of(const Entry& entry) const {
  // By this machine's clock, perhaps, which may be ahead.
  const seconds deployed = std::min(entry.deployed, wall());
  return entry.timetable.next(std::max(deployed, entry.last.value_or(deployed)));
}

void ScheduledInvocations::restore(std::vector<catalog::FiringRecord> firings) {
  for (catalog::FiringRecord& firing : firings) {
    const Key key{firing.function, firing.schedule};
    restored_[key] = std::move(firing);
  }
}

void ScheduledInvocations::recover(const FunctionSpec& spec) {
  const auto zones = read_time_zones(spec.schedules);
  if (zones.ok()) know(*zones);
  if (!zones.ok()) {
    uses_.log.error("time_zone_not_read", {{"function", spec.name.name},
                                           {"tenant", int64_t{spec.name.tenant.value}},
                                           {"error", to_string(zones.error())}});
  }
  put(spec);
}

void ScheduledInvocations::put(const FunctionSpec& spec) {
  std::map<Key, Entry> before;
  for (auto at = entries_.lower_bound({spec.id, ""});
       at != entries_.end() && at->first.first == spec.id;) {
    before.insert(entries_.extract(at++));
  }
  for (const Schedule& schedule : spec.schedules) {
    const auto zone = zones_.find(schedule.timezone);
    auto timetable = Timetable::of(schedule, zone != zones_.end() ? zone->second : TimeZone());
    if (!timetable.ok()) continue;  // no worker would have taken it
    const Key key{spec.id, schedule.name};
    const auto old = before.find(key);
    const auto added =
        entries_.emplace(key, entry_of(spec, schedule, *std::move(timetable),
                                       old != before.end() ? &old->second : nullptr));
    look_within(sleep_of(added.first->second));
  }
}

ScheduledInvocations::Entry ScheduledInvocations::entry_of(const FunctionSpec& spec,
                                                           const Schedule& schedule,
                                                           Timetable timetable,
                                                           const Entry* before) const {
  Entry entry{.function = spec.name,
              .schedule = schedule,
              .timetable = std::move(timetable),
              .deployed = std::chrono::floor<seconds>(spec.last_modified)};
  if (before != nullptr) {
    entry.last = before->last;
    entry.refused = before->refused;
    entry.of_others = before->of_others;
    entry.invocation = before->invocation;
    entry.begun = before->begun;
    entry.missed = before->missed;
    entry.failure = before->failure;
  } else if (const auto known = restored_.find({spec.id, schedule.name});
             known != restored_.end()) {
    entry.last = known->second.due;
    entry.invocation = known->second.invocation;
  }
  if (!schedule.enabled) {
    entry.refused.reset();
    entry.of_others.reset();
    return entry;
  }
  if (before != nullptr && has_same_times(before->schedule, schedule)) {
    entry.next = before->next;
    return entry;
  }
  entry.next = first_of(entry);
  return entry;
}

void ScheduledInvocations::remove(FunctionId function) {
  for (auto at = entries_.lower_bound({function, ""});
       at != entries_.end() && at->first.first == function;) {
    restored_.erase(at->first);
    at = entries_.erase(at);
  }
}

Duration ScheduledInvocations::sleep_of(const Entry& entry) const {
  Duration sleep = kLongestSleep;
  // Looked at in seconds first: an instant in some centuries has no nanoseconds.
  if (entry.next && *entry.next - wall() <= kLongestSleep) {
    sleep = std::min(sleep, *entry.next - time());
  }
  if (entry.refused) sleep = std::min<Duration>(sleep, kTryAgain);
  return std::max(sleep, Duration(0));
}

// A look that comes too early, because its schedule has gone, finds nothing and plans the next.
void ScheduledInvocations::look_within(Duration sleep) {
  const Instant at = uses_.loop.clock().now() + sleep;
  if (at >= next_look_) return;
  uses_.loop.cancel(timer_);
  next_look_ = at;
  timer_ = uses_.loop.call_after(sleep, [this] { look(); });
}

void ScheduledInvocations::look() {
  timer_ = {};
  next_look_ = kNever;
  // A worker that stops leaves them to the next one.
  if (uses_.drain.draining()) return;
  if (time_ && !time_()) return look_within(kTryAgain);
  if (time_ && !std::exchange(time_was_known_, true)) {
    for (auto& [key, entry] : entries_) {
      if (entry.schedule.enabled) entry.next = first_of(entry);
    }
  }
  const seconds now = wall();
  std::vector<std::pair<Key, seconds>> all;
  for (auto& [key, entry] : entries_) {
    if (const auto instant = due(entry, now)) all.emplace_back(key, *instant);
  }
  for (const auto& [key, instant] : all) begin(key, instant);
  Duration sleep = kLongestSleep;
  for (const auto& [key, entry] : entries_) sleep = std::min(sleep, sleep_of(entry));
  if (!entries_.empty()) look_within(sleep);
}

std::optional<seconds> ScheduledInvocations::due(Entry& entry, seconds now) {
  const bool begins = !begins_ || begins_();
  std::optional<seconds> again = std::exchange(entry.refused, std::nullopt);
  if (begins && entry.of_others) {
    // The node that was to begin it is gone, and may have begun it: then this is the same.
    const seconds passed = *std::exchange(entry.of_others, std::nullopt);
    if (!again && entry.last != passed && now - passed <= kFiringGrace) again = passed;
  }
  if (!entry.next || *entry.next > now) {
    const bool set_back = entry.next && entry.last && now < *entry.last - kClockSetBack;
    if (set_back)
      entry.next = std::min(*entry.next, entry.timetable.next(now).value_or(*entry.next));
    return again;
  }
  const FiringDecision decision =
      decide_firing(entry.timetable, *entry.next, now, entry.schedule.catch_up);
  if (decision.missed && begins) miss(entry, *entry.next);
  entry.next = decision.next;
  if (!begins && keys_hold_) entry.of_others = decision.fires;
  if (!decision.fires || !begins) return again;
  if (!again || again == decision.fires) return decision.fires;
  // The older one first; the next look begins the other.
  entry.refused = decision.fires;
  return again;
}

void ScheduledInvocations::miss(Entry& entry, seconds instant) {
  ++entry.missed;
  uses_.log.warning("schedule_missed", {{"function", entry.function.name},
                                        {"tenant", int64_t{entry.function.tenant.value}},
                                        {"schedule", entry.schedule.name},
                                        {"due", in_utc(instant)}});
}

void ScheduledInvocations::begin(const Key& key, seconds due) {
  Entry& entry = entries_.at(key);
  if (entry.last != due) {
    entry.last = due;
    entry.invocation.reset();
  }
  if (const auto admitted = admits_ ? admits_(entry.function.tenant) : Result<void>{};
      !admitted.ok()) {
    return submitted(key, due, admitted.error());
  }
  InvocationRequest request;
  request.function = entry.function;
  request.kind = InvocationKind::kAsynchronous;
  request.payload = payload_of(entry.schedule, due);
  request.idempotency_key = "schedule:" + key.second + ":" + std::to_string(due.count());
  uses_.submit(std::move(request), [this, key, due](const Result<InvocationResult>& result) {
    submitted(key, due, result);
  });
}

void ScheduledInvocations::submitted(const Key& key, seconds due,
                                     const Result<InvocationResult>& result) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  if (result.ok() && result->outcome != Outcome::kRejected) {
    entry.failure.clear();
    ++entry.begun;
    if (entry.last == due) entry.invocation = result->id;
    return uses_.save({.tenant = entry.function.tenant,
                       .function = key.first,
                       .schedule = key.second,
                       .due = due,
                       .invocation = result->id});
  }
  const Error error = result.ok() ? result->error.value_or(Error{}) : result.error();
  entry.failure = error.message;
  if (wall() - due <= kFiringGrace) {
    entry.refused = due;
    return look_within(sleep_of(entry));
  }
  ++entry.missed;
  uses_.log.error("schedule_not_begun", {{"function", entry.function.name},
                                         {"tenant", int64_t{entry.function.tenant.value}},
                                         {"schedule", key.second},
                                         {"due", in_utc(due)},
                                         {"error", to_string(error)}});
}

std::vector<metrics::WorkerMetrics::ScheduleGauges> ScheduledInvocations::gauges() const {
  std::vector<metrics::WorkerMetrics::ScheduleGauges> all;
  for (const auto& [key, entry] : entries_) {
    all.push_back({.function = entry.function,
                   .schedule = key.second,
                   .begun = entry.begun,
                   .missed = entry.missed,
                   .last = entry.last,
                   .next = entry.next});
  }
  return all;
}

void ScheduledInvocations::json(TenantId tenant, std::function<void(std::string)> done) const {
  const auto answer = std::make_shared<ListAnswer>(std::move(done));
  for (const auto& [key, entry] : entries_) {
    if (entry.function.tenant != tenant) continue;
    const size_t row = answer->rows.size();
    answer->rows.push_back(
        {{"function", entry.function.name},
         {"name", key.second},
         {"cron", entry.schedule.cron},
         {"rate", entry.schedule.rate},
         {"timezone", entry.schedule.timezone.empty() ? "UTC" : entry.schedule.timezone},
         {"enabled", entry.schedule.enabled},
         {"next", instant_or_null(entry.next)},
         {"last", instant_or_null(entry.last)},
         {"last_invocation",
          entry.invocation ? nlohmann::json(to_string(*entry.invocation)) : nlohmann::json()},
         {"last_outcome", nlohmann::json()},
         {"begins", entry.schedule.enabled && (!begins_ || begins_())},
         {"begun", entry.begun},
         {"missed", entry.missed},
         {"error", entry.failure}});
    if (!entry.invocation) continue;
    uses_.result_of(tenant, *entry.invocation,
                    [answer, row](const Result<std::optional<InvocationResult>>& result) {
                      if (!result.ok()) return;  // it is forgotten
                      answer->rows[row]["last_outcome"] =
                          *result ? std::string(name_of((*result)->outcome)) : "pending";
                    });
  }
}

ScheduledInvocations::Dependencies schedule_uses(ScheduledInvocations::Dependencies uses,
                                                 catalog::Catalog& catalog,
                                                 InvocationService& invocations) {
  uses.submit = [&invocations](InvocationRequest request, ScheduledInvocations::Submitted done) {
    invocations.submit(std::move(request), std::move(done));
  };
  uses.save = [&catalog, &log = uses.log](catalog::FiringRecord firing) {
    const std::string schedule = firing.schedule;
    catalog.save_firing(std::move(firing), [&log, schedule](Result<void> saved) {
      if (saved.ok()) return;
      log.warning("firing_not_saved",
                  {{"schedule", schedule}, {"error", to_string(saved.error())}});
    });
  };
  uses.result_of = [&invocations](TenantId tenant, InvocationId id, auto done) {
    invocations.async_result(tenant, id, std::move(done));
  };
  return uses;
}

}  // namespace lambent::worker
