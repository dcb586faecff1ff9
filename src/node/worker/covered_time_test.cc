#include "node/worker/covered_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace lambent::worker {
namespace {

Instant at(int ms) { return Instant(milliseconds(ms)); }

TEST(CoveredTime, CountsNoMomentTwice) {
  CoveredTime covered;
  covered.add(at(10), at(20));
  covered.add(at(15), at(30));
  EXPECT_EQ(covered.total(), milliseconds(20));
  covered.add(at(40), at(50));
  EXPECT_EQ(covered.total(), milliseconds(30));
  covered.add(at(0), at(60));  // what began first may end last
  EXPECT_EQ(covered.total(), milliseconds(60));
  covered.add(at(60), at(60));
  covered.add(at(70), at(65));
  EXPECT_EQ(covered.total(), milliseconds(60));
}

TEST(CoveredTime, IsThatOfEachMomentByItself) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::vector<bool> moments(400);
    CoveredTime covered;
    for (int i = 0; i < 60; ++i) {
      const int from = static_cast<int>(random() % 380),
                to = from + static_cast<int>(random() % 20);
      covered.add(at(from), at(to));
      std::fill(moments.begin() + from, moments.begin() + to, true);
      ASSERT_EQ(covered.total(), milliseconds(std::count(moments.begin(), moments.end(), true)));
    }
  }
}

TEST(CoveredTime, ForgetsWhatIsLongOver) {
  CoveredTime covered;
  const int many = static_cast<int>(CoveredTime::kIntervals) + 10;
  for (int i = 0; i < many; ++i) covered.add(at(10 * i), at(10 * i + 5));
  EXPECT_EQ(covered.total(), milliseconds(5) * many);
  covered.add(at(5), at(10));
  EXPECT_EQ(covered.total(), milliseconds(5) * many) << "too old";
  covered.add(at(10 * many - 5), at(10 * many));
  EXPECT_EQ(covered.total(), milliseconds(5) * (many + 1));
}

}  // namespace
}  // namespace lambent::worker
