#include "decide/scheduling/fleet_changes.h"

#include <gtest/gtest.h>

#include <vector>

namespace lambent::scheduling {
namespace {

// Functions as 100 and more.
bool since(const FleetChanges& changes, uint64_t count, std::vector<uint32_t>& found) {
  return changes.for_each_since(
      count, [&](uint32_t device) { found.push_back(device); },
      [&](uint32_t function) { found.push_back(100 + function); });
}

TEST(FleetChanges, TellWhatChangedOnceAPolicyListens) {
  FleetChanges changes(2);
  changes.note_device(0);
  EXPECT_EQ(changes.count(), 0u);
  changes.tell(true);
  changes.note_device(1);
  changes.note_device(1);
  changes.note_function(FunctionId{3});
  std::vector<uint32_t> found;
  EXPECT_TRUE(since(changes, 0, found));
  EXPECT_EQ(found, (std::vector<uint32_t>{1, 103})) << "the same one twice is told once";
}

TEST(FleetChanges, SaySoWhenTheyCannotRememberAll) {
  FleetChanges changes(2);
  changes.tell(true);
  const uint64_t before = changes.count();
  for (uint32_t i = 0; i < 300; ++i) changes.note_device(i % 2);
  std::vector<uint32_t> found;
  EXPECT_FALSE(since(changes, before, found));
}

TEST(FleetChanges, CountTheVersionOfDevicesWhetherAPolicyListensOrNot) {
  FleetChanges changes(2);
  const uint64_t version = changes.version();
  changes.note_function(FunctionId{1});
  EXPECT_EQ(changes.version(), version);
  changes.note_device(0);
  changes.note_load(1);
  EXPECT_EQ(changes.version(), version + 2);
}

TEST(FleetChanges, VisitEachDeviceOnceWhoseLoadHasChanged) {
  FleetChanges changes(3);
  changes.note_load(2);
  changes.note_load(0);
  changes.note_load(2);
  changes.note_device(1);
  std::vector<uint32_t> visited;
  const auto visit = [&](uint32_t device) { visited.push_back(device); };
  changes.visit_loads(visit);
  EXPECT_EQ(visited, (std::vector<uint32_t>{2, 0}));
  changes.visit_loads(visit);
  EXPECT_EQ(visited.size(), 2u);
}

}  // namespace
}  // namespace lambent::scheduling
