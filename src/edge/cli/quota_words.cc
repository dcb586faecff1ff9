#include "edge/cli/quota_words.h"

#include <cmath>
#include <cstdio>
#include <ctime>
#include <utility>

#include "core/base/parse_number.h"
#include "core/base/units.h"
#include "edge/cli/console.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMostSeconds = 1e9;

constexpr QuotaWord kQuotas[] = {
    {"--functions", "functions", "FUNCTIONS", QuotaUnit::kCount, "functions at most"},
    {"--concurrency", "concurrency", "CONCURRENCY", QuotaUnit::kCount,
     "invocations at work at once, at most"},
    {"--gpu-memory", "gpu_memory_bytes", "GPU MEMORY", QuotaUnit::kBytes,
     "GPU memory of its sandboxes at most, over all GPUs, such as 8G"},
    {"--gpu-time-per-hour", "gpu_seconds_per_hour", "GPU TIME/H", QuotaUnit::kDuration,
     "time of runs that hold a GPU at most, in any hour, such as 90s"},
    {"--host-memory", "host_memory_bytes", "HOST MEMORY", QuotaUnit::kBytes,
     "memory limits of its sandboxes together at most, such as 16G"},
    {"--objects", "object_bytes", "OBJECTS", QuotaUnit::kBytes,
     "memory and disk of its objects at most, such as 4G"},
    {"--disk", "disk_bytes", "DISK", QuotaUnit::kBytes,
     "packages, volumes, layers, logs and asynchronous invocations at most, such as 10G"},
    {"--requests-per-second", "requests_per_second", "REQUESTS/S", QuotaUnit::kRate,
     "requests to the API a second at most, with bursts of one second's worth"}};

Error not_read(const QuotaWord& quota, const std::string& word, const char* expected) {
  return {ErrorCode::kInvalidArgument,
          std::string(quota.flag) + ": " + expected + " is expected, or none, not '" + word + "'"};
}

// A finite number that is the whole of `text`.
std::optional<double> number_in(std::string_view text) {
  const auto number = parse_number<double>(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

Result<Json> value_of(const QuotaWord& quota, const std::string& word) {
  if (word == kNoQuota) return Json(nullptr);
  switch (quota.unit) {
    case QuotaUnit::kCount: {
      const auto count = parse_number<uint64_t>(word);
      if (count) return Json(*count);
      return not_read(quota, word, "a whole number");
    }
    case QuotaUnit::kBytes: {
      const auto bytes = parse_bytes(word);
      if (!bytes.ok()) return not_read(quota, word, "an amount such as 8G");
      return Json(bytes->count);
    }
    case QuotaUnit::kDuration: {
      const auto duration = duration_in(word);
      if (!duration.ok()) return not_read(quota, word, "a time such as 90s");
      return Json(api_seconds(*duration));
    }
    case QuotaUnit::kRate: {
      const auto rate = number_in(word);
      if (!rate || *rate <= 0) return not_read(quota, word, "a number above 0");
      return Json(*rate);
    }
  }
  return Json(nullptr);
}

}  // namespace

std::span<const QuotaWord> quota_words() { return kQuotas; }

Result<Json> json_of(const TenantSettings& settings) {
  Json json = Json::object();
  if (settings.weight) json["weight"] = *settings.weight;
  for (const QuotaWord& quota : kQuotas) {
    const auto word = settings.quotas.find(quota.key);
    if (word == settings.quotas.end()) continue;
    ASSIGN_OR_RETURN(Json value, value_of(quota, word->second));
    json["quotas"][quota.key] = std::move(value);
  }
  return json;
}

double api_seconds(Duration duration) { return static_cast<double>(duration.count()) / 1e9; }

Result<Duration> duration_in(std::string_view text) {
  constexpr std::pair<char, double> kUnits[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  double unit = 1;
  std::string_view number_text = text;
  for (const auto& [letter, amount] : kUnits) {
    if (!text.ends_with(letter)) continue;
    unit = amount;
    number_text.remove_suffix(1);
    break;
  }
  const auto number = number_in(number_text);
  if (!number || *number < 0 || *number * unit > kMostSeconds) {
    return Error{ErrorCode::kInvalidArgument, "'" + std::string(text) +
                                                  "' is no time: a number and s, m, h or d are "
                                                  "expected, such as 90s or 30d"};
  }
  return from_seconds(*number * unit);
}

std::string quota_text(const QuotaWord& quota, const Json& value) {
  if (!value.is_number()) return "-";
  switch (quota.unit) {
    case QuotaUnit::kBytes:
      return to_string(Bytes(value.get<uint64_t>()));
    case QuotaUnit::kDuration:
      return human_seconds(value.get<double>());
    default:
      return value.dump();
  }
}

std::string date_text(double epoch_seconds) {
  const auto time = static_cast<std::time_t>(epoch_seconds);
  std::tm date{};
  ::gmtime_r(&time, &date);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02d-%02d %02d:%02d UTC", date.tm_year + 1900,
                date.tm_mon + 1, date.tm_mday, date.tm_hour, date.tm_min);
  return text;
}

}  // namespace lambent::cli
