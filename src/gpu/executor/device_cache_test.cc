#include "gpu/executor/device_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace lambent::executor {
namespace {

using testing::ElementsAre;
using Number = DeviceCache::EntryNumber;

void use(DeviceCache& cache, Number entry) {
  cache.pin(entry);
  cache.unpin(entry);
}

TEST(DeviceCache, WhatWasUsedOnceGoesBeforeWhatWasUsedMoreOften) {
  DeviceCache cache;
  for (const Number entry : {1, 2, 3}) {
    cache.add(entry, Bytes(10));
    use(cache, entry);
  }
  use(cache, 1);
  EXPECT_THAT(*cache.victims(Bytes(30)), ElementsAre(2, 3, 1));
  use(cache, 2);
  EXPECT_THAT(*cache.victims(Bytes(30)), ElementsAre(3, 1, 2));
}

TEST(DeviceCache, OfASetTheLeastRecentlyUsedGoesFirst) {
  DeviceCache cache;
  for (const Number entry : {1, 2, 3}) {
    cache.add(entry, Bytes(10));
    use(cache, entry);
    use(cache, entry);
  }
  use(cache, 1);
  EXPECT_THAT(*cache.victims(Bytes(11)), ElementsAre(2, 3));
}

TEST(DeviceCache, WhatIsPinnedNeverGoes) {
  DeviceCache cache;
  cache.add(1, Bytes(10));
  cache.add(2, Bytes(10));
  cache.pin(1);
  cache.pin(1);
  EXPECT_THAT(*cache.victims(Bytes(10)), ElementsAre(2));
  EXPECT_FALSE(cache.victims(Bytes(11)).has_value());
  EXPECT_EQ(cache.pinned(), Bytes(10));
  cache.unpin(1);
  EXPECT_FALSE(cache.victims(Bytes(11)).has_value());
  cache.unpin(1);
  EXPECT_TRUE(cache.victims(Bytes(20)).has_value());
}

TEST(DeviceCache, WhatAWaitingRequestNeedsGoesOnlyIfNothingElseCan) {
  DeviceCache cache;
  for (const Number entry : {1, 2}) cache.add(entry, Bytes(10));
  use(cache, 2);
  use(cache, 2);
  cache.need(1);
  EXPECT_THAT(*cache.victims(Bytes(10)), ElementsAre(2));
  EXPECT_THAT(*cache.victims(Bytes(20)), ElementsAre(2, 1));
  cache.unneed(1);
  EXPECT_THAT(*cache.victims(Bytes(10)), ElementsAre(1));
}

TEST(DeviceCache, NothingGoesForNothing) {
  DeviceCache cache;
  cache.add(1, Bytes(10));
  EXPECT_THAT(*cache.victims(Bytes(0)), ElementsAre());
}

// The rule itself, over a plain list.
struct Plain {
  Number number;
  Bytes size;
  int uses = 0, pins = 0, needs = 0, last = 0;
};

TEST(DeviceCache, AgreesWithTheRuleOverRandomUse) {
  const unsigned seed = 20251;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  DeviceCache cache;
  std::vector<Plain> plain;
  int clock = 0;
  for (int step = 0; step < 20'000; ++step) {
    const unsigned what = random() % 8;
    if (plain.size() < 4 || (what == 0 && plain.size() < 40)) {
      plain.push_back({static_cast<Number>(step), Bytes(1 + random() % 100)});
      plain.back().last = ++clock;
      cache.add(plain.back().number, plain.back().size);
      continue;
    }
    const size_t at = random() % plain.size();
    Plain& entry = plain[at];
    if (what == 1 && entry.pins == 0) {
      cache.remove(entry.number);
      plain.erase(plain.begin() + static_cast<ptrdiff_t>(at));
    } else if (what == 2 || what == 3) {
      cache.pin(entry.number);
      ++entry.pins, ++entry.uses, entry.last = ++clock;
    } else if (what == 4 && entry.pins > 0) {
      cache.unpin(entry.number);
      --entry.pins;
    } else if (what == 5) {
      cache.need(entry.number);
      ++entry.needs;
    } else if (what == 6 && entry.needs > 0) {
      cache.unneed(entry.number);
      --entry.needs;
    }
    std::vector<Plain> order;
    for (const Plain& each : plain) {
      if (each.pins == 0) order.push_back(each);
    }
    std::sort(order.begin(), order.end(), [](const Plain& a, const Plain& b) {
      return std::tuple(a.needs > 0, a.uses > 1, a.last) <
             std::tuple(b.needs > 0, b.uses > 1, b.last);
    });
    const Bytes wanted(random() % 1000);
    std::vector<Number> expected;
    Bytes freed;
    for (const Plain& each : order) {
      if (freed >= wanted) break;
      expected.push_back(each.number);
      freed += each.size;
    }
    const auto victims = cache.victims(wanted);
    ASSERT_EQ(victims.has_value(), freed >= wanted);
    if (victims) {
      ASSERT_EQ(*victims, expected);
    }
  }
}

}  // namespace
}  // namespace lambent::executor
