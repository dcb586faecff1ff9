#include "decide/scheduling/sandbox_table.h"

#include <gtest/gtest.h>

#include <string>

namespace lambent::scheduling {
namespace {

constexpr FunctionId kF{1};

Sandbox planned(uint64_t id, FunctionId function = kF) {
  return {.id = SandboxId{id}, .function = function};
}

TEST(SandboxTable, FindsSandboxesByIdAndUsesTheSlotsOfThoseThatAreGone) {
  SandboxTable table;
  const SandboxSlot first = table.add(planned(1));
  const SandboxSlot second = table.add(planned(2));
  EXPECT_EQ(table.find(SandboxId{2}), second);
  table.remove(first);
  EXPECT_FALSE(table.find(SandboxId{1}));
  EXPECT_EQ(table.all(), std::vector{second});
  EXPECT_EQ(table.add(planned(3)), first);
  EXPECT_EQ(table.slots(), 2u);
}

TEST(SandboxTable, KeepsASandboxInItsSlotUnderAnotherId) {
  SandboxTable table;
  const SandboxSlot slot = table.add(planned(1));
  table.rename(slot, SandboxId{5});
  EXPECT_FALSE(table.find(SandboxId{1}));
  EXPECT_EQ(table.find(SandboxId{5}), slot);
  EXPECT_EQ(table[slot].id, SandboxId{5});
}

TEST(SandboxTable, CountsTheStartsOfEachFunction) {
  SandboxTable table;
  const SandboxSlot slot = table.add(planned(1));
  table.add(planned(2, FunctionId{2}));
  EXPECT_EQ(table.starts_of(kF), 1u);
  EXPECT_FALSE(table.set_state(slot, SandboxState::kStarting, {}));
  EXPECT_TRUE(table.set_state(slot, SandboxState::kBusy, {}));
  EXPECT_EQ(table.starts_of(kF), 0u);
  EXPECT_TRUE(table.set_state(slot, SandboxState::kStarting, {}));
  EXPECT_EQ(table.starts_of(kF), 1u);
  table.remove(slot);
  EXPECT_EQ(table.starts_of(kF), 0u);
  EXPECT_EQ(table.starts_of(FunctionId{2}), 1u);
  EXPECT_EQ(table.starts_of(FunctionId{99}), 0u);
}

std::string bytes_of(SandboxTable& table) {
  std::string bytes;
  StateArchive archive(&bytes);
  table.archive(archive, 1);
  return bytes;
}

TEST(SandboxTable, IsTheSameAfterARestore) {
  SandboxTable table;
  const SandboxSlot gone = table.add(planned(1));
  const SandboxSlot kept = table.add(planned(2));
  table.remove(gone);
  const std::string bytes = bytes_of(table);
  SandboxTable restored;
  StateArchive reading{std::string_view(bytes)};
  restored.archive(reading, 1);
  ASSERT_TRUE(reading.complete());
  EXPECT_EQ(restored.find(SandboxId{2}), kept);
  EXPECT_EQ(restored.starts_of(kF), 1u);
  EXPECT_EQ(restored.add(planned(3)), gone);
}

TEST(SandboxTable, RefusesASandboxOnADeviceThatIsNotThere) {
  SandboxTable table;
  table[table.add(planned(1))].device = 1;
  const std::string bytes = bytes_of(table);
  SandboxTable restored;
  StateArchive reading{std::string_view(bytes)};
  restored.archive(reading, 1);
  EXPECT_FALSE(reading.ok());
}

}  // namespace
}  // namespace lambent::scheduling
