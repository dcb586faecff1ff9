#include "decide/dispatch/invocation_table.h"

#include <gtest/gtest.h>

#include <map>

#include "core/base/random.h"

namespace lambent::dispatch {
namespace {

TEST(InvocationTable, FindsExactlyWhatIsInItWhateverComesAndGoes) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    InvocationTable table;
    std::map<InvocationId, InvocationSlot> model;
    for (int step = 0; step < 5000; ++step) {
      // Few different ids, so that chains form and are broken.
      const InvocationId id{0, random.below(300)};
      const auto known = model.find(id);
      ASSERT_EQ(table.find(id).has_value(), known != model.end());
      if (known == model.end()) {
        model[id] = table.add(id);
      } else {
        ASSERT_EQ(*table.find(id), known->second);
        table.remove(known->second);
        model.erase(known);
      }
      ASSERT_EQ(table.size(), model.size());
    }
    for (const auto& [id, slot] : model) ASSERT_EQ(table.find(id), slot);
  }
}

TEST(InvocationTable, KeepsAQueuePerFunctionFromWhoseMiddleOnesMayLeave) {
  InvocationTable table;
  const FunctionId f{3};
  InvocationSlot slots[3];
  for (uint64_t i = 0; i < 3; ++i) {
    slots[i] = table.add({0, i});
    table[slots[i]].function = f;
    table.push_back(f, slots[i]);
  }
  table.unlink(slots[1]);
  EXPECT_EQ(table.front(f), slots[0]);
  EXPECT_EQ(table[slots[0]].later, slots[2]);
  table.unlink(slots[0]);
  EXPECT_EQ(table.front(f), slots[2]);
  table.unlink(slots[2]);
  EXPECT_EQ(table.front(f), kNoInvocation);
  EXPECT_EQ(table.front(FunctionId{99}), kNoInvocation);
}

TEST(InvocationTable, PutsBackWhereTheArrivalNumberBelongs) {
  InvocationTable table;
  const FunctionId f{1};
  const auto order = [&] {
    std::vector<uint64_t> arrivals;
    InvocationSlot last = kNoInvocation;
    for (InvocationSlot at = table.front(f); at != kNoInvocation; at = table[at].later) {
      EXPECT_EQ(table[at].earlier, last);
      last = at;
      arrivals.push_back(table[at].arrival);
    }
    return arrivals;
  };
  InvocationSlot slots[5];
  for (uint64_t i = 0; i < 5; ++i) {
    slots[i] = table.add({0, i});
    table[slots[i]].function = f;
    table[slots[i]].arrival = i;
  }
  table.put_back(f, slots[3]);
  table.put_back(f, slots[1]);
  table.put_back(f, slots[4]);
  table.put_back(f, slots[0]);
  table.put_back(f, slots[2]);
  EXPECT_EQ(order(), (std::vector<uint64_t>{0, 1, 2, 3, 4}));
  table.unlink(slots[0]);
  table.unlink(slots[4]);
  EXPECT_EQ(order(), (std::vector<uint64_t>{1, 2, 3}));
}

}  // namespace
}  // namespace lambent::dispatch
