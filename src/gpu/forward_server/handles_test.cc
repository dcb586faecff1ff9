#include "gpu/forward_server/handles.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace lambent::forward_server {
namespace {

TEST(HandleTable, ANumberFindsItsEntryUntilThatIsErased) {
  HandleTable<std::string> table(nullptr);
  const uint64_t one = table.add("one"), two = table.add("two");
  ASSERT_NE(table.find(one), nullptr);
  EXPECT_EQ(*table.find(one), "one");
  table.erase(one);
  EXPECT_EQ(table.find(one), nullptr);
  EXPECT_EQ(*table.find(two), "two");
  table.erase(one);  // nothing happens
  EXPECT_EQ(*table.find(two), "two");
}

TEST(HandleTable, ANumberIsNeverThatOfALaterEntry) {
  HandleTable<int> table(nullptr);
  std::set<uint64_t> numbers;
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t number = table.add(i);
    ASSERT_TRUE(numbers.insert(number).second) << i;
    table.erase(number);
  }
}

TEST(HandleTable, NumbersThatWereNotGivenFindNothing) {
  HandleTable<int> table(nullptr);
  const uint64_t number = table.add(1);
  for (const uint64_t forged : {uint64_t{0}, number + 1, number + 16, number + (uint64_t{1} << 32),
                                number - (uint64_t{1} << 32), UINT64_MAX}) {
    EXPECT_EQ(table.find(forged), nullptr) << forged;
  }
  EXPECT_EQ(number % 16, 0U);  // programs take it for a pointer
}

TEST(HandleTable, EntriesTakeTheQuotaAndGiveItBackWithThemselvesOrTheTable) {
  Quota quota(2);
  {
    HandleTable<int> table(&quota);
    const uint64_t first = table.add(1);
    EXPECT_NE(table.add(2), 0U);
    EXPECT_EQ(table.add(3), 0U);
    table.erase(first);
    EXPECT_NE(table.add(3), 0U);
    EXPECT_FALSE(quota.take());
  }
  EXPECT_TRUE(quota.take(2));
}

TEST(HandleTable, EntriesMayBeErasedWhileTheyAreVisited) {
  HandleTable<int> table(nullptr);
  for (int i = 0; i < 10; ++i) table.add(i);
  table.for_each([&](uint64_t number, int& entry) {
    if (entry % 2 == 0) table.erase(number);
  });
  int sum = 0;
  table.for_each([&](uint64_t, int& entry) { sum += entry; });
  EXPECT_EQ(sum, 1 + 3 + 5 + 7 + 9);
}

}  // namespace
}  // namespace lambent::forward_server
