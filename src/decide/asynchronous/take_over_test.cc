#include "decide/asynchronous/take_over.h"

#include <gtest/gtest.h>

namespace lambent::asynchronous {
namespace {

using Names = std::vector<std::string>;

// What lost nodes have, of one tenant, and what would become of it.
class TakeOverTest : public ::testing::Test {
 protected:
  // The functions of the next look.
  Names look() {
    std::vector<TenantFunction> page;
    for (const auto& [name, prospect] : pending_) {
      const TenantFunction function{"t", name};
      if (function > take_over_.after() && page.size() < kMost) page.push_back(function);
    }
    Names taken;
    for (const auto& [tenant, name] : take_over_.choose(
             page, kMost,
             [this](const TenantFunction& function) { return pending_.at(function.second); })) {
      taken.push_back(name);
    }
    return taken;
  }

  static constexpr size_t kMost = 2;
  std::map<std::string, Prospect> pending_;
  TakeOver take_over_;
};

TEST_F(TakeOverTest, WhatNoLivingNodeCanRunKeepsNothingElse) {
  pending_ = {{"a", Prospect::kWaits}, {"b", Prospect::kRuns}};
  EXPECT_EQ(look(), Names{"b"});
  EXPECT_EQ(look(), Names{}) << "behind the last one there is none";
  pending_["a"] = Prospect::kRuns;
  EXPECT_EQ(look(), (Names{"a", "b"}));
}

TEST_F(TakeOverTest, EachFunctionHasItsTurnHoweverManyWait) {
  pending_ = {{"a", Prospect::kWaits},
              {"b", Prospect::kWaits},
              {"c", Prospect::kWaits},
              {"d", Prospect::kRuns},
              {"e", Prospect::kRuns}};
  EXPECT_EQ(look(), Names{});
  EXPECT_EQ(look(), Names{"d"});
  EXPECT_EQ(look(), Names{"e"});
  EXPECT_EQ(look(), Names{}) << "from the first one on";
}

TEST_F(TakeOverTest, AFunctionThatIsNotHereYetIsWaitedForAndThenTakenToBeRemoved) {
  pending_ = {{"a", Prospect::kUnknown}};
  for (unsigned each = 0; each < TakeOver::kMostLooks; ++each) EXPECT_EQ(look(), Names{});
  EXPECT_EQ(look(), Names{"a"});
  EXPECT_EQ(look(), Names{"a"}) << "the rest of it too";
  pending_["a"] = Prospect::kRuns;
  EXPECT_EQ(look(), Names{"a"});
  pending_["a"] = Prospect::kUnknown;
  EXPECT_EQ(look(), Names{}) << "it counts from the start";
}

TEST_F(TakeOverTest, WhatIsOverIsForgotten) {
  pending_ = {{"a", Prospect::kUnknown}};
  for (unsigned each = 0; each <= TakeOver::kMostLooks; ++each) look();
  pending_.clear();
  look();
  pending_ = {{"a", Prospect::kUnknown}};
  EXPECT_EQ(look(), Names{});
}

TEST(ProspectTest, ANodeThatIsStillCopyingAFunctionLeavesItsCallsToOthers) {
  EXPECT_EQ(prospect_of(Copy::kComing, "a"), Prospect::kWaits);
  EXPECT_EQ(prospect_of(Copy::kHere, "a"), Prospect::kRuns);
  EXPECT_EQ(prospect_of(Copy::kHere, "b"), Prospect::kRuns) << "it is given to b";
  EXPECT_EQ(prospect_of(Copy::kHere, std::nullopt), Prospect::kWaits);
  EXPECT_EQ(prospect_of(Copy::kNone, std::nullopt), Prospect::kUnknown);
}

TEST(ProspectTest, WhatCameAllTheSameWaitsForTheCopyAndIsNotRefused) {
  EXPECT_EQ(next_of(Copy::kComing, std::nullopt, "a"), std::nullopt);
  EXPECT_EQ(next_of(Copy::kComing, "a", "a"), std::nullopt);
  EXPECT_EQ(next_of(Copy::kHere, "a", "a"), "a");
  EXPECT_EQ(next_of(Copy::kHere, "b", "a"), "b");
  EXPECT_EQ(next_of(Copy::kHere, std::nullopt, "a"), std::nullopt) << "of a node that is lost";
  EXPECT_EQ(next_of(Copy::kNone, std::nullopt, "a"), "a") << "it says that there is none";
}

// Two nodes that look in the same moment choose the same: who claims first has it (Leases).
TEST(ProspectTest, TwoNodesThatLookAtOnceChooseTheSameFunctions) {
  TakeOver a, c;
  const std::vector<TenantFunction> pending{{"t", "f"}, {"t", "g"}};
  const auto of = [](const TenantFunction&) { return Prospect::kRuns; };
  EXPECT_EQ(a.choose(pending, 10, of), pending);
  EXPECT_EQ(c.choose(pending, 10, of), pending);
}

}  // namespace
}  // namespace lambent::asynchronous
