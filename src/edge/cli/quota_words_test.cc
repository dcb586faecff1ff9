// Quotas and times as people write them.
#include "edge/cli/quota_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lambent::cli {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

TEST(QuotaWords, BecomeTheApisNumbersInItsUnits) {
  TenantSettings settings{.weight = 2.5, .quotas = {}};
  settings.quotas = {{"functions", "12"},
                     {"gpu_memory_bytes", "8G"},
                     {"gpu_seconds_per_hour", "1.5m"},
                     {"disk_bytes", "none"},
                     {"requests_per_second", "0.5"}};
  const auto json = json_of(settings);
  ASSERT_TRUE(json.ok()) << to_string(json.error());
  EXPECT_EQ(*json, (Json{{"weight", 2.5},
                         {"quotas",
                          {{"functions", 12},
                           {"gpu_memory_bytes", 8589934592},
                           {"gpu_seconds_per_hour", 90.0},
                           {"disk_bytes", nullptr},
                           {"requests_per_second", 0.5}}}}));
}

TEST(QuotaWords, WhatIsNotNamedIsNotSent) { EXPECT_EQ(*json_of({}), Json::object()); }

TEST(QuotaWords, ABadWordIsRefusedWithItsFlag) {
  const std::pair<const char*, const char*> kBad[] = {
      {"functions", "-1"},           {"functions", "1.5"},          {"functions", ""},
      {"gpu_memory_bytes", "eight"}, {"gpu_seconds_per_hour", "h"}, {"requests_per_second", "0"},
      {"requests_per_second", "nan"}};
  for (const auto& [key, word] : kBad) {
    const auto json = json_of({.weight = {}, .quotas = {{key, word}}});
    ASSERT_FALSE(json.ok()) << key << " " << word;
    EXPECT_THAT(json.error().message, HasSubstr("--")) << key;
  }
}

TEST(QuotaWords, EveryQuotaHasAFlagOfItsOwn) {
  std::map<std::string, int> flags;
  for (const QuotaWord& quota : quota_words()) ++flags[quota.flag];
  EXPECT_EQ(flags.size(), quota_words().size());
}

TEST(Durations, HaveAUnitOrAreSeconds) {
  EXPECT_EQ(*duration_in("90"), seconds(90));
  EXPECT_EQ(*duration_in("90s"), seconds(90));
  EXPECT_EQ(*duration_in("15m"), std::chrono::minutes(15));
  EXPECT_EQ(*duration_in("1.5h"), std::chrono::minutes(90));
  EXPECT_EQ(*duration_in("30d"), std::chrono::hours(720));
  for (const char* bad : {"", "d", "-1d", "1w", "1 d", "inf", "1e300d", "30dd"}) {
    EXPECT_FALSE(duration_in(bad).ok()) << bad;
  }
}

TEST(QuotaWords, AreShownInUnitsForPeople) {
  for (const QuotaWord& quota : quota_words()) {
    EXPECT_EQ(quota_text(quota, nullptr), "-");
    const bool is_bytes = quota.unit == QuotaUnit::kBytes;
    const bool is_duration = quota.unit == QuotaUnit::kDuration;
    EXPECT_EQ(quota_text(quota, 90), is_bytes ? "90 B" : is_duration ? "90.00 s" : "90");
  }
  EXPECT_EQ(date_text(1795839720), "2026-11-28 04:22 UTC");
}

}  // namespace
}  // namespace lambent::cli
