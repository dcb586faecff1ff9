// How people write quotas, weights and lifetimes of tokens, and how they are shown. Pure; any
// thread.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/time.h"

namespace lambent::cli {

enum class QuotaUnit { kCount, kBytes, kDuration, kRate };

// A quota of a tenant: its flag, its key in the API and its column.
struct QuotaWord {
  const char* flag;   // "--gpu-memory"
  const char* key;    // "gpu_memory_bytes"
  const char* title;  // "GPU MEMORY"
  QuotaUnit unit;
  const char* meaning;
};
std::span<const QuotaWord> quota_words();

// What takes a quota away.
inline constexpr std::string_view kNoQuota = "none";

// As it was written after the flags; what is not named stays.
struct TenantSettings {
  std::optional<double> weight;
  std::map<std::string, std::string> quotas;  // by key
};
// The API's JSON for it, without a name. INVALID_ARGUMENT, naming the flag.
Result<nlohmann::ordered_json> json_of(const TenantSettings& settings);

// As the API has durations: whole seconds come out whole.
double api_seconds(Duration duration);

// "90s", "15m", "1.5h", "30d"; a number without a unit is seconds. INVALID_ARGUMENT otherwise.
Result<Duration> duration_in(std::string_view text);

// A quota as the API has it, for a table: "8 GiB", "90.00 s", "-" if there is none.
std::string quota_text(const QuotaWord& quota, const nlohmann::ordered_json& value);
// Seconds since the Unix epoch as "2026-11-28 04:22 UTC".
std::string date_text(double epoch_seconds);

}  // namespace lambent::cli
