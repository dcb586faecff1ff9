#include "sim/workload/time_order.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/random.h"

namespace lambent::workload {
namespace {

void expect_sorted_as_by_comparing(std::vector<Arrival> arrivals) {
  std::vector<Arrival> expected = arrivals;
  std::sort(expected.begin(), expected.end());
  TimeOrder order;
  order.sort(arrivals);
  EXPECT_EQ(arrivals, expected);
  // Its arrays are used again.
  std::reverse(arrivals.begin(), arrivals.end());
  order.sort(arrivals);
  EXPECT_EQ(arrivals, expected);
}

TEST(TimeOrder, IsThatOfComparingWhateverTheTimesAre) {
  SeededRandom random(5);
  for (const size_t count : {0, 1, 2, 3, 100, 5'000}) {
    // From all equal over crowded to far apart, with few functions so that whole arrivals are
    // equal.
    for (const uint64_t span : {uint64_t{1}, uint64_t{10}, uint64_t{60'000'000'000}}) {
      std::vector<Arrival> arrivals;
      for (size_t i = 0; i < count; ++i) {
        arrivals.push_back({Duration(static_cast<int64_t>(random.below(span))),
                            static_cast<uint32_t>(random.below(5))});
      }
      expect_sorted_as_by_comparing(arrivals);
      // One far away crowds all others into one part.
      arrivals.push_back({std::chrono::hours(1'000'000), 0});
      expect_sorted_as_by_comparing(arrivals);
    }
  }
}

}  // namespace
}  // namespace lambent::workload
