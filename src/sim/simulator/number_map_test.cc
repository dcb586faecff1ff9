#include "sim/simulator/number_map.h"

#include <gtest/gtest.h>

#include <map>

#include "core/base/random.h"

namespace lambent::simulator {
namespace {

TEST(NumberMap, HoldsWhatWasAddedUntilItIsErased) {
  NumberMap<int> map;
  EXPECT_EQ(map.find(7), nullptr);
  EXPECT_FALSE(map.erase(7));
  map.add(7, 70);
  ASSERT_NE(map.find(7), nullptr);
  EXPECT_EQ(*map.find(7), 70);
  EXPECT_TRUE(map.erase(7));
  EXPECT_EQ(map.find(7), nullptr);
  EXPECT_TRUE(map.empty());
}

TEST(NumberMap, AgreesWithAMapOfTheStandardLibraryWhateverCollides) {
  // A large stride leaves nothing to tell the keys' homes apart.
  for (const uint64_t stride : {uint64_t{1}, uint64_t{16}, uint64_t{1} << 50}) {
    SeededRandom random(stride);
    NumberMap<uint64_t> map;
    std::map<uint64_t, uint64_t> reference;
    for (int step = 0; step < 20'000; ++step) {
      const uint64_t key = (1 + random.below(60)) * stride;
      if (reference.contains(key)) {
        EXPECT_EQ(*map.find(key), reference.at(key));
        EXPECT_TRUE(map.erase(key));
        reference.erase(key);
      } else {
        EXPECT_EQ(map.find(key), nullptr);
        reference[key] = random.next();
        map.add(key, reference.at(key));
      }
      EXPECT_EQ(map.size(), reference.size());
    }
    for (const auto& [key, value] : reference) EXPECT_EQ(*map.find(key), value);
  }
}

}  // namespace
}  // namespace lambent::simulator
