#include "decide/scheduling/idle_sandboxes.h"

#include <gtest/gtest.h>

#include <string>

namespace lambent::scheduling {
namespace {

constexpr FunctionId kF{1};

class IdleSandboxesTest : public testing::Test {
 protected:
  SandboxSlot idle(uint64_t id, uint32_t device, FunctionId function = kF) {
    const SandboxSlot slot = sandboxes_.add({.id = SandboxId{id},
                                             .function = function,
                                             .device = device,
                                             .state = SandboxState::kIdle});
    idle_.enter(slot);
    return slot;
  }
  std::vector<SandboxSlot> on(uint32_t device) {
    std::vector<SandboxSlot> slots;
    for (const IdleSandbox& one : idle_.on(device)) slots.push_back(one.slot);
    return slots;
  }

  SandboxTable sandboxes_;
  IdleSandboxes idle_{sandboxes_, 2};
};

TEST_F(IdleSandboxesTest, ListThoseOfAFunctionByTheirLastUse) {
  const SandboxSlot oldest = idle(1, 0);
  const SandboxSlot middle = idle(2, 1);
  idle(3, 0, FunctionId{2});
  const SandboxSlot newest = idle(4, 0);
  EXPECT_EQ(idle_.of(kF), (std::vector{newest, middle, oldest}));
  EXPECT_EQ(idle_.newest_of(kF), newest);
  EXPECT_EQ(idle_.oldest_of(kF), oldest);
  EXPECT_EQ(idle_.newest_of(FunctionId{9}), kNoSandbox);
}

TEST_F(IdleSandboxesTest, CloseTheGapOfOneThatLeaves) {
  const SandboxSlot oldest = idle(1, 0);
  const SandboxSlot middle = idle(2, 0);
  const SandboxSlot newest = idle(3, 0);
  idle_.leave(middle);
  EXPECT_EQ(idle_.of(kF), (std::vector{newest, oldest}));
  EXPECT_EQ(on(0), (std::vector{oldest, newest}));
  idle_.leave(newest);
  EXPECT_EQ(idle_.newest_of(kF), oldest);
  idle_.leave(oldest);
  EXPECT_EQ(idle_.newest_of(kF), kNoSandbox);
  EXPECT_EQ(idle_.oldest_of(kF), kNoSandbox);
}

TEST_F(IdleSandboxesTest, KnowWhichAreOnADevice) {
  const SandboxSlot first = idle(1, 0);
  const SandboxSlot second = idle(2, 1);
  EXPECT_EQ(on(0), std::vector{first});
  EXPECT_EQ(on(1), std::vector{second});
}

TEST_F(IdleSandboxesTest, AreTheSameAfterARestore) {
  const SandboxSlot oldest = idle(1, 0);
  const SandboxSlot newest = idle(2, 1);
  std::string bytes;
  StateArchive writing(&bytes);
  idle_.archive(writing);
  IdleSandboxes restored(sandboxes_, 2);
  StateArchive reading{std::string_view(bytes)};
  restored.archive(reading);
  ASSERT_TRUE(reading.complete());
  EXPECT_EQ(restored.of(kF), (std::vector{newest, oldest}));
  EXPECT_EQ(restored.oldest_of(kF), oldest);
  EXPECT_EQ(restored.on(1).size(), 1u);
}

TEST_F(IdleSandboxesTest, RefuseAListWithASandboxThatIsNotIdle) {
  const SandboxSlot slot = idle(1, 0);
  std::string bytes;
  StateArchive writing(&bytes);
  idle_.archive(writing);
  sandboxes_.set_state(slot, SandboxState::kBusy, {});
  IdleSandboxes restored(sandboxes_, 2);
  StateArchive reading{std::string_view(bytes)};
  restored.archive(reading);
  EXPECT_FALSE(reading.ok());
}

}  // namespace
}  // namespace lambent::scheduling
