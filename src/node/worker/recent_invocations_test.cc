#include "node/worker/recent_invocations.h"

#include <gtest/gtest.h>

#include "core/domain/version.h"

namespace lambent::worker {
namespace {

constexpr TenantId kRed{7}, kBlue{8};

InvocationResult result_of(uint64_t number, Outcome outcome = Outcome::kSucceeded,
                           StartClass start = StartClass::kWarm) {
  InvocationResult result;
  result.id = InvocationId{0, number};
  result.outcome = outcome;
  result.start = start;
  result.phases.run = milliseconds(10);
  return result;
}

TEST(RecentInvocations, GivesTheNewestFirstAndOnlyWhatIsAskedFor) {
  RecentInvocations recent;
  for (uint64_t i = 1; i <= 4; ++i) {
    recent.ended({kRed, i % 2 == 0 ? "even" : "odd"}, result_of(i), seconds(100 + i));
  }
  const auto all = recent.find(kRed, EndedQuery{});
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all.front().sequence, 4u);
  EXPECT_EQ(all.front().ended, seconds(104));
  EXPECT_EQ(recent.find(kRed, {.function = "odd"}).size(), 2u);
  EXPECT_EQ(recent.find(kRed, {.after = 3}).size(), 1u);
  EXPECT_EQ(recent.find(kRed, {.before = 3}).front().sequence, 2u);
  const auto limited = recent.find(kRed, {.limit = 2});
  ASSERT_EQ(limited.size(), 2u);
  EXPECT_EQ(limited.back().sequence, 3u);
}

TEST(RecentInvocations, RemembersAllDevicesOfARun) {
  RecentInvocations recent;
  InvocationResult pair = result_of(1);
  pair.device = DeviceId(1);
  pair.beside = {DeviceId(2)};
  recent.ended({kRed, "f"}, pair, {});
  EXPECT_EQ(recent.find(kRed, EndedQuery{}).front().beside, pair.beside);
}

TEST(RecentInvocations, KeepsTenantsApart) {
  RecentInvocations recent;
  recent.ended({kRed, "f"}, result_of(1), {});
  EXPECT_TRUE(recent.find(kBlue, EndedQuery{}).empty());
  EXPECT_EQ(recent.find(kBlue, InvocationId{0, 1}), nullptr);
  EXPECT_NE(recent.find(kRed, InvocationId{0, 1}), nullptr);
  EXPECT_EQ(recent.counts({kBlue, "f"}), nullptr);
}

TEST(RecentInvocations, CountsByStartAndOutcome) {
  RecentInvocations recent;
  recent.ended({kRed, "f"}, result_of(1, Outcome::kSucceeded, StartClass::kCold), {});
  recent.ended({kRed, "f"}, result_of(2, Outcome::kSucceeded, StartClass::kGpuCold), {});
  recent.ended({kRed, "f"}, result_of(3, Outcome::kFunctionError), {});
  recent.ended({kRed, "f"}, result_of(4, Outcome::kRejected), {});
  InvocationResult late = result_of(5);
  late.in_time = false;
  recent.ended({kRed, "f"}, late, {});
  const auto* counts = recent.counts({kRed, "f"});
  ASSERT_NE(counts, nullptr);
  EXPECT_EQ(counts->cold, 1u);
  EXPECT_EQ(counts->gpu_cold, 1u);
  EXPECT_EQ(counts->warm, 2u);
  EXPECT_EQ(counts->failed, 1u);
  EXPECT_EQ(counts->refused, 1u);
  EXPECT_EQ(counts->late, 1u);
  EXPECT_EQ(counts->latency.count(), 4u);  // what was refused took nothing
}

TEST(RecentInvocations, CountsAVersionForItsFunction) {
  RecentInvocations recent;
  recent.ended(version_record({kRed, "f"}, 3), result_of(1), {});
  EXPECT_EQ(recent.counts({kRed, "f"})->warm, 1u);
  const auto ended = recent.find(kRed, {.function = "f"});
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended.front().version, "3");
}

TEST(RecentInvocations, ForgetsTheOldestOfATenant) {
  RecentInvocations recent;
  for (uint64_t i = 1; i <= kRecentPerTenant + 1; ++i) {
    recent.ended({kRed, "f"}, result_of(i), {});
  }
  EXPECT_EQ(recent.find(kRed, {.limit = 10'000}).size(), kRecentPerTenant);
  EXPECT_EQ(recent.find(kRed, InvocationId{0, 1}), nullptr);
  EXPECT_EQ(recent.counts({kRed, "f"})->warm, kRecentPerTenant + 1);
}

TEST(RecentInvocations, ForgetsTheTenantThatHadNoneForTheLongestTime) {
  RecentInvocations recent;
  for (uint32_t tenant = 1; tenant <= kRecentTenants; ++tenant) {
    recent.ended({TenantId{tenant}, "f"}, result_of(tenant), {});
  }
  recent.ended({TenantId{1}, "f"}, result_of(100), {});
  recent.ended({TenantId{1'000}, "f"}, result_of(101), {});
  EXPECT_FALSE(recent.find(TenantId{1}, EndedQuery{}).empty());
  EXPECT_TRUE(recent.find(TenantId{2}, EndedQuery{}).empty());
  EXPECT_FALSE(recent.find(TenantId{1'000}, EndedQuery{}).empty());
}

TEST(RecentInvocations, CutsWhatAHandlerSaid) {
  RecentInvocations recent;
  InvocationResult failed = result_of(1, Outcome::kFunctionError);
  failed.error_type = std::string(10'000, 'x');
  failed.error = Error{ErrorCode::kInternal, std::string(10'000, 'y')};
  recent.ended({kRed, "f"}, failed, {});
  EXPECT_EQ(recent.find(kRed, EndedQuery{}).front().error_type.size(), kRecentError);
  EXPECT_EQ(recent.find(kRed, EndedQuery{}).front().error.size(), kRecentError);
}

TEST(RecentInvocations, ForgetsAFunctionAndATenantThatAreGone) {
  RecentInvocations recent;
  recent.ended({kRed, "f"}, result_of(1), {});
  recent.ended({kRed, "g"}, result_of(2), {});
  recent.forget(FunctionName{kRed, "f"});
  EXPECT_EQ(recent.counts({kRed, "f"}), nullptr);
  EXPECT_EQ(recent.find(kRed, EndedQuery{}).size(), 2u);
  recent.forget(kRed);
  EXPECT_TRUE(recent.find(kRed, EndedQuery{}).empty());
  EXPECT_EQ(recent.counts({kRed, "g"}), nullptr);
}

}  // namespace
}  // namespace lambent::worker
