#include "decide/scheduling/deadlines.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "core/base/random.h"

namespace lambent::scheduling {
namespace {

constexpr Instant at(int64_t when) { return Instant(seconds(when)); }

TEST(Deadlines, TellTheEarliestBeforeALimitAndElseTheLimit) {
  Deadlines deadlines;
  EXPECT_EQ(deadlines.earliest(kNever), kNever);
  deadlines.put(4, at(9));
  deadlines.put(2, at(5));
  EXPECT_EQ(deadlines.earliest(kNever), at(5));
  EXPECT_EQ(deadlines.earliest(at(3)), at(3));
  EXPECT_FALSE(deadlines.any_until(at(4)));
  EXPECT_TRUE(deadlines.any_until(at(5)));
}

TEST(Deadlines, FollowOneThatIsPutOffBroughtForwardAndTakenBack) {
  Deadlines deadlines;
  deadlines.put(1, at(5));
  deadlines.put(1, at(8));
  deadlines.put(2, at(7));
  EXPECT_EQ(deadlines.earliest(kNever), at(7));
  deadlines.put(1, at(6));
  EXPECT_EQ(deadlines.earliest(kNever), at(6));
  deadlines.erase(1);
  deadlines.erase(99);
  EXPECT_EQ(deadlines.of(1), kNever);
  EXPECT_EQ(deadlines.earliest(kNever), at(7));
  deadlines.put(2, kNever);
  EXPECT_EQ(deadlines.earliest(kNever), kNever);
}

// Beside a map, whatever is done to them, with instants so near that many are equal.
TEST(Deadlines, BehaveAsASortedMapWhateverIsDoneToThem) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    Deadlines deadlines;
    std::map<uint32_t, Instant> expected;
    const auto first = [&] {
      auto least = expected.begin();
      for (auto one = expected.begin(); one != expected.end(); ++one) {
        if (one->second < least->second) least = one;
      }
      return least;
    };
    for (int step = 0; step < 3'000; ++step) {
      const auto item = static_cast<uint32_t>(random.below(40));
      const Instant when = at(step / 10 + static_cast<int64_t>(random.below(30)));
      switch (random.below(4)) {
        case 0:
          deadlines.erase(item);
          expected.erase(item);
          break;
        case 1:
          while (!expected.empty() && first()->second <= at(step / 10)) {
            ASSERT_TRUE(deadlines.any_until(at(step / 10)));
            ASSERT_EQ(deadlines.pop(), first()->first);
            expected.erase(first());
          }
          ASSERT_FALSE(deadlines.any_until(at(step / 10)));
          break;
        default:
          deadlines.put(item, when);
          expected[item] = when;
      }
      const Instant least = expected.empty() ? kNever : first()->second;
      ASSERT_EQ(deadlines.earliest(when), std::min(least, when));
      if (step % 500 != 0) continue;
      std::string bytes;
      StateArchive writer(&bytes);
      deadlines.archive(writer);
      deadlines = {};
      StateArchive reader{std::string_view(bytes)};
      deadlines.archive(reader);
      ASSERT_TRUE(reader.complete());
      // What is written does not depend on how the deadlines came about.
      std::string again;
      StateArchive rewriter(&again);
      deadlines.archive(rewriter);
      ASSERT_EQ(again, bytes);
    }
  }
}

}  // namespace
}  // namespace lambent::scheduling
