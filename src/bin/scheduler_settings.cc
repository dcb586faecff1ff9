#include "bin/scheduler_settings.h"

#include <cstdlib>
#include <functional>
#include <map>

#include "bin/former_names.h"

namespace lambent {
namespace {

using Apply = std::function<bool(const std::string&, SchedulerSettings&)>;

bool read_number(const std::string& text, double least, double& number) {
  char* end = nullptr;
  number = std::strtod(text.c_str(), &end);
  return end != text.c_str() && *end == '\0' && number >= least && number < 1e9;
}

// A setting that is a duration in seconds.
Apply duration(std::function<void(SchedulerSettings&, Duration)> set) {
  return [set](const std::string& text, SchedulerSettings& settings) {
    double amount = 0;
    if (!read_number(text, 0, amount)) return false;
    set(settings, from_seconds(amount));
    return true;
  };
}

Apply number(double least, std::function<void(SchedulerSettings&, double)> set) {
  return [least, set](const std::string& text, SchedulerSettings& settings) {
    double amount = 0;
    if (!read_number(text, least, amount)) return false;
    set(settings, amount);
    return true;
  };
}

// How many may wait.
Apply queue(std::function<size_t&(SchedulerSettings&)> bound) {
  return number(1, [bound](auto& s, double n) { bound(s) = static_cast<size_t>(n); });
}

// A number from 0 to 1.
Apply share(std::function<void(SchedulerSettings&, double)> set) {
  return [set](const std::string& text, SchedulerSettings& settings) {
    double amount = 0;
    if (!read_number(text, 0, amount) || amount > 1) return false;
    set(settings, amount);
    return true;
  };
}

// A setting with one of two words; `set` is told whether it is the first.
Apply choice(std::string first, std::string second,
             std::function<void(SchedulerSettings&, bool)> set) {
  return [=](const std::string& text, SchedulerSettings& settings) {
    if (text != first && text != second) return false;
    set(settings, text == first);
    return true;
  };
}

// Of eviction and of what is foreseen.
std::map<std::string, Apply> settings_of_foresight() {
  return {
      {"eviction",
       [](const std::string& text, SchedulerSettings& s) {
         const auto rule = scheduling::eviction_rule_from(text);
         if (rule) s.dispatch.fleet.eviction = *rule;
         return rule.has_value();
       }},
      {"foresee", choice("true", "false",
                         [](auto& s, bool yes) { s.dispatch.fleet.foresight.starts_ahead = yes; })},
      {"foresee_window_s",
       duration([](auto& s, Duration d) { s.dispatch.fleet.foresight.window = d; })},
  };
}

std::map<std::string, Apply> all_settings() {
  std::map<std::string, Apply> all = {
      {"over_run_s", duration([](auto& s, Duration d) { s.policy.mqfq.over_run = d; })},
      {"anticipation", number(0, [](auto& s, double n) { s.policy.mqfq.anticipation = n; })},
      {"longest_anticipation_s",
       duration([](auto& s, Duration d) { s.policy.mqfq.longest_anticipation = d; })},
      {"first_estimate_s", duration([](auto& s, Duration d) { s.policy.mqfq.first_estimate = d; })},
      {"order", choice("in-flight-first", "length-first",
                       [](auto& s, bool first) {
                         s.policy.mqfq.order = first ? scheduling::CandidateOrder::kInFlightFirst
                                                     : scheduling::CandidateOrder::kLengthFirst;
                       })},
      {"duplicates_last",
       choice("true", "false", [](auto& s, bool yes) { s.policy.mqfq.duplicates_last = yes; })},
      {"memory_first",
       choice("true", "false", [](auto& s, bool yes) { s.policy.mqfq.memory_first = yes; })},
      {"starts_outside_tokens", number(0,
                                       [](auto& s, double n) {
                                         s.dispatch.fleet.starts_outside_tokens =
                                             static_cast<unsigned>(n);
                                       })},
      {"move_grace_period",
       number(0, [](auto& s, double n) { s.dispatch.fleet.move_grace_period = n; })},
      {"second_grace_period",
       number(0, [](auto& s, double n) { s.dispatch.fleet.second_grace_period = n; })},
      {"memory_rule",
       [](const std::string& text, SchedulerSettings& s) {
         using enum scheduling::MemoryRule;
         const auto found = std::map<std::string, scheduling::MemoryRule>{
             {"every-sandbox", kEverySandbox}, {"move-idle", kMoveIdle}, {"move-early", kMoveEarly}};
         const auto rule = found.find(text);
         if (rule != found.end()) s.dispatch.fleet.memory_rule = rule->second;
         return rule != found.end();
       }},
      {"prefetch",
       choice("true", "false", [](auto& s, bool yes) { s.dispatch.fleet.prefetch = yes; })},
      {"host_memory_gib", number(0,
                                 [](auto& s, double n) {
                                   s.dispatch.fleet.host_memory =
                                       Bytes(static_cast<uint64_t>(n * (1ull << 30)));
                                 })},
      {"move_timeout_s", duration([](auto& s, Duration d) { s.dispatch.move_timeout = d; })},
      {"fcfs_moves_off",
       choice("true", "false", [](auto& s, bool yes) { s.policy.fcfs_moves_off_after_run = yes; })},
      {"grace_period_s", duration([](auto& s, Duration d) { s.policy.density.grace_period = d; })},
      {"adapts", choice("true", "false", [](auto& s, bool yes) { s.policy.density.adapts = yes; })},
      {"weighs_queue",
       choice("true", "false", [](auto& s, bool yes) { s.policy.density.weighs_queue = yes; })},
      {"first_start_s", duration([](auto& s, Duration d) { s.policy.density.first_start = d; })},
      {"cfs_penalty", number(0, [](auto& s, double n) { s.policy.cfs.penalty = n; })},
      {"host_concurrency",
       number(1,
              [](auto& s, double n) { s.dispatch.host_concurrency = static_cast<unsigned>(n); })},
      {"host_sandboxes",
       number(1, [](auto& s, double n) { s.dispatch.host_sandboxes = static_cast<unsigned>(n); })},
      {"hybrid",
       [](const std::string& text, SchedulerSettings& s) {
         const auto rule = scheduling::hybrid_rule_from(text);
         if (rule) s.dispatch.hybrid.rule = *rule;
         return rule.has_value();
       }},
      {"gpu_share", share([](auto& s, double n) { s.dispatch.hybrid.gpu_share = n; })},
      {"hybrid_others", number(0, [](auto& s, double n) { s.dispatch.hybrid.others = n; })},
      {"queued_per_function", queue([](auto& s) -> size_t& { return s.dispatch.queued_per_function; })},
      {"queued_invocations", queue([](auto& s) -> size_t& { return s.dispatch.queued_invocations; })},
      {"queued_synchronous", queue([](auto& s) -> size_t& { return s.dispatch.queued_synchronous; })},
      {"queue_wait_s", duration([](auto& s, Duration d) { s.dispatch.queue_wait = d; })},
      {"max_queue_time_s",
       [](const std::string& text, SchedulerSettings& s) {
         const auto bound = queue_time_from(text);
         if (bound) s.dispatch.max_queue_time = *bound;
         return bound.has_value();
       }},
      {"longest_wait_s", duration([](auto& s, Duration d) { s.dispatch.longest_wait = d; })},
      {"init_timeout_s", duration([](auto& s, Duration d) { s.dispatch.init_timeout = d; })},
      {"stop_timeout_s", duration([](auto& s, Duration d) { s.dispatch.stop_timeout = d; })},
  };
  all.merge(settings_of_foresight());
  return all;
}

const std::map<std::string, Apply>& table() {
  static const std::map<std::string, Apply> kTable = all_settings();
  return kTable;
}

// What settings were called in the version before, by which they can be set in this one too.
const std::map<std::string, std::string>& former_names() {
  static const std::map<std::string, std::string> kFormer = {
      {"move_patience", "move_grace_period"},
      {"second_patience", "second_grace_period"},
      {"patience_s", "grace_period_s"}};
  return kFormer;
}

std::string present_name(const std::string& name) {
  const auto found = former_names().find(name);
  if (found == former_names().end()) return name;
  bin::warn_of_former_name("the setting " + name, found->second);
  return found->second;
}

}  // namespace

std::optional<Duration> queue_time_from(const std::string& text) {
  if (text == "auto") return scheduling::kLearntQueueTime;
  double amount = 0;
  if (!read_number(text, 0, amount)) return std::nullopt;
  return amount > 0 ? from_seconds(amount) : scheduling::kNoQueueTime;
}

SchedulerSettings default_settings() {
  SchedulerSettings settings;
  settings.policy.fcfs_moves_off_after_run = false;
  settings.policy.density.adapts = true;
  settings.policy.density.weighs_queue = true;
  settings.dispatch.fleet.starts_outside_tokens = scheduling::kStartsOutsideTokens;
  settings.dispatch.fleet.foresight.starts_ahead = true;
  return settings;
}

Result<void> apply_settings(const std::vector<std::string>& texts, SchedulerSettings& settings) {
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    const auto found = table().find(present_name(text.substr(0, equals)));
    if (equals == std::string::npos || found == table().end()) {
      std::string known;
      for (const auto& [key, apply] : table()) known += (known.empty() ? "" : ", ") + key;
      return Error{ErrorCode::kInvalidArgument,
                   "--set " + text + ": no such setting; there are " + known};
    }
    if (!found->second(text.substr(equals + 1), settings)) {
      return Error{ErrorCode::kInvalidArgument, "--set " + text + ": not a value for it"};
    }
  }
  return {};
}

std::string parameter_name(const std::string& name) {
  static const std::map<std::string, std::string> kShort = {
      {"D", "concurrency"}, {"T", "over_run_s"}, {"alpha", "anticipation"}};
  const auto found = kShort.find(name);
  return found == kShort.end() ? present_name(name) : found->second;
}

void scale_time(double time_scale, std::string_view policy, SchedulerSettings& settings) {
  auto& uniform_cost = settings.policy.mqfq.uniform_cost;
  if (policy == "mqfq-uniform" && !uniform_cost) uniform_cost = scheduling::kUniformCost;
  const auto scale = [time_scale](Duration& duration) {
    duration = from_seconds(to_seconds(duration) / time_scale);
  };
  scale(settings.policy.mqfq.over_run);
  scale(settings.policy.mqfq.longest_anticipation);
  if (settings.policy.mqfq.first_estimate) scale(*settings.policy.mqfq.first_estimate);
  if (uniform_cost) scale(*uniform_cost);
  scale(settings.dispatch.fleet.guesses.gap);
  scale(settings.dispatch.fleet.guesses.cold_start);
  scale(settings.dispatch.fleet.foresight.window);
  scale(settings.dispatch.fleet.foresight.horizon);
  scale(settings.dispatch.fleet.foresight.look_again);
  scale(settings.policy.density.grace_period);
  scale(settings.policy.density.first_start);
  settings.policy.density.link_bytes_per_second *= time_scale;
}

}  // namespace lambent
