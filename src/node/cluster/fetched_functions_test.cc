#include "node/cluster/fetched_functions.h"

#include <gtest/gtest.h>

namespace lambent::cluster {
namespace {

using routing::Warmth;
using Warm = std::vector<std::pair<uint64_t, Warmth>>;

const Instant kBegin{seconds(100)};

TEST(FetchedFunctions, AreThoseThatWereWarmAndAreNot) {
  FetchedFunctions fetched(10, std::chrono::minutes(60));
  const Warm both{{5, Warmth::kResident}, {9, Warmth::kSwappedOut}};
  fetched.note(both, kBegin);
  EXPECT_TRUE(fetched.list(both).empty());
  const Warm one{{9, Warmth::kResident}};
  fetched.note(one, kBegin + seconds(1));
  EXPECT_EQ(fetched.list(one), std::vector<uint64_t>{5});
  EXPECT_EQ(fetched.list({}), (std::vector<uint64_t>{5, 9}));
}

TEST(FetchedFunctions, TheOldestAreForgottenFirst) {
  FetchedFunctions fetched(2, std::chrono::minutes(60));
  for (uint64_t function = 1; function <= 3; ++function) {
    fetched.note({{function, Warmth::kResident}}, kBegin);
    fetched.note({{1, Warmth::kResident}}, kBegin);  // which is always in use
  }
  EXPECT_EQ(fetched.list({}), (std::vector<uint64_t>{1, 3}));
}

TEST(FetchedFunctions, NoneIsKeptForEver) {
  FetchedFunctions fetched(10, std::chrono::minutes(60));
  fetched.note({{1, Warmth::kResident}}, kBegin);
  fetched.note({}, kBegin + std::chrono::minutes(60));
  EXPECT_EQ(fetched.list({}).size(), 1U);
  fetched.note({}, kBegin + std::chrono::minutes(60) + seconds(1));
  EXPECT_TRUE(fetched.list({}).empty());
}

}  // namespace
}  // namespace lambent::cluster
