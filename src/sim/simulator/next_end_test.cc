#include "sim/simulator/next_end.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/random.h"

namespace lambent::simulator {
namespace {

TEST(NextEnd, HasNoneWithoutPlacesOrEnds) {
  EXPECT_TRUE(NextEnd().empty());
  EXPECT_EQ(NextEnd().top_end(), kNever);
  NextEnd ends(3);
  EXPECT_TRUE(ends.empty());
  ends.put(2, Instant(seconds(1)));
  EXPECT_FALSE(ends.empty());
  ends.put(2, kNever);
  EXPECT_TRUE(ends.empty());
}

// As a look at all of them says: the earliest, of equals the lower place.
TEST(NextEnd, IsTheEarliestOfAllWhateverChanges) {
  SeededRandom random(5);
  for (const size_t places : {1, 2, 3, 7, 8, 9, 100, 1539}) {
    NextEnd ends(places);
    std::vector<Instant> plain(places, kNever);
    for (int i = 0; i < 4'000; ++i) {
      const auto place = static_cast<uint32_t>(random.below(places));
      // Few instants, so that many are equal.
      const Instant end = random.below(4) == 0 ? kNever : Instant(seconds(random.below(50)));
      ends.put(place, end);
      plain[place] = end;
      const auto least = std::min_element(plain.begin(), plain.end());
      ASSERT_EQ(ends.top_end(), *least);
      if (*least == kNever) continue;
      ASSERT_EQ(ends.top(), least - plain.begin()) << places << " places, step " << i;
    }
  }
}

}  // namespace
}  // namespace lambent::simulator
