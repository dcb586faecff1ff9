#include "decide/access/quota_share.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace lambent::access {
namespace {

QuotaUse at_work(uint64_t count) { return {.used = count, .wanted = count}; }

TEST(QuotaShareTest, IdleNodesHaveEqualParts) {
  EXPECT_EQ(running_share({.quota = 9, .here = {}, .others = {{}, {}}}), 3u);
  EXPECT_EQ(running_share({.quota = 9, .here = {}, .others = {}}), 9u);
}

TEST(QuotaShareTest, TheFirstNodesHaveWhatCannotBeDivided) {
  const QuotaUse busy{0, 50};
  const auto share = [&](size_t position) {
    return running_share(
        {.quota = 5, .here = busy, .others = {busy, busy, {}}, .position = position});
  };
  EXPECT_EQ(share(0), 2u);
  EXPECT_EQ(share(1), 2u);
  EXPECT_EQ(share(2), 1u);
  EXPECT_EQ(running_share({.quota = 5, .here = {}, .others = {{}, {}}, .position = 1}), 2u);
  EXPECT_EQ(running_share({.quota = 5, .here = {}, .others = {{}, {}}, .position = 2}), 1u);
}

TEST(QuotaShareTest, ABusyNodeHasWhatIdleOnesDoNotWant) {
  EXPECT_EQ(running_share({.quota = 9, .here = {3, 50}, .others = {{}, {}}}), 9u);
  // And they have a part of nothing: one each, until they are heard.
  EXPECT_EQ(running_share({.quota = 9, .here = {}, .others = {{9, 50}, {}}}), 1u);
}

TEST(QuotaShareTest, BusyNodesShareAlikeOnceOthersHaveEndedTheirs) {
  const QuotaView newcomer{.quota = 8, .here = {0, 20}, .others = {{8, 20}}};
  EXPECT_EQ(running_share(newcomer), 1u) << "all of it is at work elsewhere";
  EXPECT_EQ(running_share({.quota = 8, .here = {0, 20}, .others = {{5, 20}}}), 3u);
  EXPECT_EQ(running_share({.quota = 8, .here = {4, 20}, .others = {{4, 20}}}), 4u);
  EXPECT_EQ(running_share({.quota = 8, .here = {8, 20}, .others = {{0, 20}}}), 4u)
      << "it starts no more above its part";
}

TEST(QuotaShareTest, ANodeMayAlwaysHaveOne) {
  const QuotaView memory{
      .quota = 100, .here = {}, .others = {at_work(90)}, .position = 0, .silent = 0, .unit = 40};
  EXPECT_EQ(running_share(memory), 40u);
  EXPECT_EQ(rest_of_quota(memory), 40u);
  EXPECT_EQ(running_share(
                {.quota = 30, .here = {}, .others = {}, .position = 0, .silent = 0, .unit = 40}),
            30u)
      << "but no more than the quota";
  EXPECT_EQ(running_share({.quota = 0, .here = {}, .others = {{}}}), 0u);
}

TEST(QuotaShareTest, MostOfTheNodesHaveAllOfItAndOthersTheirPart) {
  // Of three one is lost.
  EXPECT_EQ(divided_quota({.quota = 12, .here = {}, .others = {{}}, .position = 0, .silent = 1}),
            12u);
  EXPECT_EQ(divided_quota({.quota = 12, .here = {}, .others = {}, .position = 0, .silent = 2}), 4u);
  // Of two, each by itself.
  EXPECT_EQ(divided_quota({.quota = 12, .here = {}, .others = {}, .position = 0, .silent = 1}), 6u);
  EXPECT_EQ(
      divided_quota({.quota = UINT64_MAX, .here = {}, .others = {}, .position = 0, .silent = 1}),
      UINT64_MAX / 2);
}

TEST(QuotaShareTest, RatesAreDividedByWhatIsWantedOnly) {
  EXPECT_EQ(fair_share({.quota = 100, .here = {10, 10}, .others = {{90, 400}}}), 10u);
  EXPECT_EQ(fair_share({.quota = 100, .here = {90, 400}, .others = {{10, 10}}}), 90u);
  EXPECT_EQ(fair_share({.quota = 100, .here = {0, 400}, .others = {{100, 400}}}), 50u);
}

// Nodes that know the same of each other: together they have no more than the quota, but for the
// one that each may have.
TEST(QuotaShareTest, SharesAddUpToTheQuota) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20'000; ++round) {
    const size_t nodes = 1 + random() % 6;
    const uint64_t quota = random() % 200;
    std::vector<QuotaUse> uses(nodes);
    for (QuotaUse& use : uses) {
      use.used = random() % 60;
      use.wanted = use.used + (random() % 2 == 0 ? 0 : random() % 100);
    }
    uint64_t fair = 0;
    uint64_t running = 0;
    for (size_t i = 0; i < nodes; ++i) {
      QuotaView view{.quota = quota, .here = uses[i], .others = {}, .position = i};
      for (size_t j = 0; j < nodes; ++j) {
        if (j != i) view.others.push_back(uses[j]);
      }
      fair += fair_share(view);
      running += running_share(view);
      ASSERT_LE(running_share(view), quota);
      ASSERT_LE(running_share(view), std::max<uint64_t>(fair_share(view), 1));
    }
    ASSERT_LE(fair, quota + nodes) << "round " << round;
    ASSERT_LE(running, quota + nodes) << "round " << round;
  }
}

// A cluster in steps: each has what the others said a step ago. Runs end, others begin as far as
// the node's share allows. Settled, the runs of all are the quota, but for one of each node.
TEST(QuotaShareTest, WithNewsThatIsAStepOldRunsSettleAtTheQuota) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    const size_t nodes = 2 + random() % 4;
    const uint64_t quota = nodes + random() % 30;
    std::vector<uint64_t> running(nodes), waiting(nodes);
    std::vector<QuotaUse> told(nodes);
    for (uint64_t& each : waiting) each = random() % 3 == 0 ? 0 : 200;
    waiting[0] = 200;
    for (int step = 0; step < 40; ++step) {
      std::vector<QuotaUse> next(nodes);
      for (size_t i = 0; i < nodes; ++i) {
        running[i] -= std::min<uint64_t>(running[i], random() % 3);  // some end
        QuotaView view{.quota = quota,
                       .here = as_told({running[i], running[i] + waiting[i]}, told[i]),
                       .others = {},
                       .position = i};
        for (size_t j = 0; j < nodes; ++j) {
          if (j != i) view.others.push_back(told[j]);
        }
        const uint64_t share = running_share(view);
        if (running[i] < share && waiting[i] > 0) running[i] = share;
        next[i] = {running[i], running[i] + waiting[i]};
      }
      told = next;
      if (step < 20) continue;
      uint64_t all = 0;
      for (const uint64_t each : running) all += each;
      ASSERT_LE(all, quota + quota / 2 + nodes) << "round " << round << ", step " << step;
      ASSERT_GE(all + 2 * nodes + quota / 2, quota) << "round " << round << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace lambent::access
