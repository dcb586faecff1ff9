#include "core/domain/schedule.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/base/json_survey.h"
#include "core/base/json_text.h"
#include "core/domain/cron.h"
#include "core/domain/limits.h"
#include "core/domain/time_zone.h"

namespace lambent {
namespace {

using Json = nlohmann::ordered_json;

Error invalid(const std::string& what) { return Error{ErrorCode::kInvalidArgument, what}; }

bool is_name_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
         c == '_';
}

Result<void> check_times(const Schedule& schedule) {
  if (schedule.cron.empty() == schedule.rate.empty()) {
    return invalid("it has either cron, such as \"*/5 * * * *\", or rate, such as \"5 minutes\"");
  }
  if (schedule.cron.empty()) {
    if (!schedule.timezone.empty()) return invalid("a time zone is for cron, not for rate");
    const auto rate = parse_rate(schedule.rate);
    if (!rate.ok()) return rate.error();
    return {};
  }
  if (!schedule.timezone.empty() && !TimeZone::is_name(schedule.timezone)) {
    return invalid("timezone is '" + schedule.timezone +
                   "'; it is a name such as Europe/Zurich, or UTC, which is the default");
  }
  const auto cron = Cron::parse(schedule.cron);
  if (!cron.ok()) return cron.error();
  return {};
}

Result<void> check(const Schedule& schedule) {
  if (schedule.name.empty() || schedule.name.size() > limits::kScheduleNameLength ||
      !std::all_of(schedule.name.begin(), schedule.name.end(), is_name_character)) {
    return invalid("its name has 1 to " + std::to_string(limits::kScheduleNameLength) +
                   " letters, digits, '-' and '_'");
  }
  RETURN_IF_ERROR(check_times(schedule));
  if (schedule.payload.size() > limits::kSchedulePayload.count) {
    return invalid("its payload has " + std::to_string(schedule.payload.size()) +
                   " bytes; at most " + std::to_string(limits::kSchedulePayload.count) + " fit");
  }
  if (schedule.payload.empty()) return {};
  return survey_json(schedule.payload,
                     {.subject = "its payload", .most_depth = limits::kJsonDepth});
}

bool take(const Json& value, std::string& to) {
  if (value.is_string()) to = value.get<std::string>();
  return value.is_string();
}

std::optional<Schedule> read(const Json& object) {
  if (!object.is_object()) return std::nullopt;
  Schedule schedule;
  for (const auto& [key, value] : object.items()) {
    if (key == "catch_up" && value.is_boolean()) {
      schedule.catch_up = value.get<bool>();
      continue;
    }
    if (key == "enabled" && value.is_boolean()) {
      schedule.enabled = value.get<bool>();
      continue;
    }
    std::string* to = nullptr;
    if (key == "name") to = &schedule.name;
    if (key == "cron") to = &schedule.cron;
    if (key == "rate") to = &schedule.rate;
    if (key == "timezone") to = &schedule.timezone;
    if (key == "payload") to = &schedule.payload;
    if (to == nullptr || !take(value, *to)) return std::nullopt;
  }
  return schedule;
}

}  // namespace

std::string text_of(const Schedules& schedules) {
  if (schedules.empty()) return "";
  Json list = Json::array();
  for (const Schedule& schedule : schedules) {
    Json object = {{"name", schedule.name}};
    const auto put = [&](const char* key, const std::string& text) {
      if (!text.empty()) object[key] = text;
    };
    put("cron", schedule.cron);
    put("rate", schedule.rate);
    put("timezone", schedule.timezone);
    put("payload", schedule.payload);
    if (schedule.catch_up) object["catch_up"] = true;
    if (!schedule.enabled) object["enabled"] = false;
    list.push_back(std::move(object));
  }
  return json_text(list);
}

Result<Schedules> parse_schedules(std::string_view text) {
  Schedules schedules;
  if (text.empty()) return schedules;
  if (text.size() > limits::kSettingTag.count) return invalid("the list of schedules is too long");
  RETURN_IF_ERROR(survey_json(text, {.subject = "the list of schedules"}));
  const Json list = Json::parse(text, nullptr, false);
  if (!list.is_array()) return invalid("schedules are a list");
  if (list.size() > limits::kSchedulesPerFunction) {
    return invalid("a function has at most " + std::to_string(limits::kSchedulesPerFunction) +
                   " schedules");
  }
  for (const Json& each : list) {
    auto schedule = read(each);
    if (!schedule) {
      return invalid(
          "a schedule has the texts name, cron or rate, timezone and payload, and the switches "
          "catch_up and "
          "enabled");
    }
    schedules.push_back(std::move(*schedule));
  }
  return schedules;
}

Result<void> validate(const Schedules& schedules) {
  if (schedules.size() > limits::kSchedulesPerFunction) {
    return invalid("a function has at most " + std::to_string(limits::kSchedulesPerFunction) +
                   " schedules");
  }
  std::set<std::string> names;
  for (const Schedule& schedule : schedules) {
    if (const auto good = check(schedule); !good.ok()) {
      return invalid("the schedule '" + schedule.name + "': " + good.error().message);
    }
    if (!names.insert(schedule.name).second) {
      return invalid("two schedules are named '" + schedule.name + "'");
    }
  }
  return {};
}

Result<std::chrono::seconds> parse_rate(std::string_view text) {
  const Error wrong = invalid("rate is '" + std::string(text) +
                              "'; it is a whole number of minutes, hours or days, such as \"5 "
                              "minutes\" or \"1 hour\"");
  int64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || number < 1 || number > 1'000'000) return wrong;
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  if (!unit.starts_with(' ')) return wrong;
  unit.remove_prefix(1);
  if (unit.ends_with('s')) unit.remove_suffix(1);
  if (unit == "minute") return seconds(std::chrono::minutes(number));
  if (unit == "hour") return seconds(std::chrono::hours(number));
  if (unit == "day") return seconds(std::chrono::hours(24 * number));
  return wrong;
}

}  // namespace lambent
