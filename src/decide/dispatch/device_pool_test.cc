#include "decide/dispatch/device_pool.h"

#include "decide/dispatch/testing/device_pool_parts.h"

namespace lambent::dispatch {
namespace {

using scheduling::SandboxSlot;
using scheduling::SandboxState;

using DevicePoolTest = DevicePoolParts;

TEST_F(DevicePoolTest, EvictsIdleSandboxesThatAreInTheWayOfAPlannedOne) {
  idle(1);
  const SandboxSlot newer = idle(2);
  const SandboxSlot planned = plan(3);
  const auto stopped = parts_.got<StopSandbox>();
  ASSERT_EQ(stopped.size(), 1u);
  EXPECT_EQ(stopped[0].sandbox, SandboxId{1});
  EXPECT_EQ(parts_.log.counters().evictions, 1u);
  EXPECT_EQ(state(newer), SandboxState::kIdle);
  EXPECT_FALSE(pool().fleet().may_start(planned)) << "the evicted one is not gone";
}

TEST_F(DevicePoolTest, EndsAStartARestAndAStopInTheirTime) {
  const SandboxSlot slot = plan(1);
  pool().start(slot);
  EXPECT_EQ(pool().earliest_deadline(kNever), Instant(parts_.options.init_timeout));
  pool().started(slot);
  EXPECT_EQ(pool().earliest_deadline(kNever), kNever);
  pool().run(slot, 0);
  pool().rest(slot);
  EXPECT_EQ(pool().deadline_of(slot), Instant(parts_.options.keep_alive));
  pool().stop(slot, StopReason::kIdle);
  EXPECT_EQ(pool().deadline_of(slot), Instant(parts_.options.stop_timeout));
  pool().remove(slot);
  EXPECT_EQ(pool().earliest_deadline(kNever), kNever);
}

TEST_F(DevicePoolTest, GivesAStartAsLongAsARunMayTake) {
  parts_.flow(kF).timeout = parts_.options.init_timeout + seconds(5);
  pool().start(plan(1));
  EXPECT_EQ(pool().earliest_deadline(kNever), Instant(parts_.options.init_timeout + seconds(5)));
}

TEST_F(DevicePoolTest, RetiresIdleSandboxesOfOtherRevisions) {
  parts_.flow(kF).revision = 1;
  const SandboxSlot old = idle(1);
  parts_.flow(kF).revision = 2;
  const SandboxSlot current = idle(2);
  pool().retire_others(kF, 2);
  EXPECT_EQ(state(old), SandboxState::kStopping);
  EXPECT_EQ(state(current), SandboxState::kIdle);
  pool().stop_idle(kF, StopReason::kRetired);
  EXPECT_EQ(state(current), SandboxState::kStopping);
}

TEST_F(DevicePoolTest, CountsRunsThatAPrefetchServed) {
  parts_.options.fleet.memory_rule = scheduling::MemoryRule::kMoveIdle;
  Parts parts(parts_.options);
  parts.add_function(kF, Bytes::gib(6));
  const SandboxId id = parts.run_one(1, kF);
  DevicePool& gpus = parts.pools.gpu;
  const SandboxSlot slot = *gpus.fleet().find(id);
  gpus.moves().move_out(slot, MoveDepth::kMemory);
  gpus.moves().end(slot, {.sandbox = id, .direction = MoveDirection::kOut});
  gpus.moves().prefetch(slot);
  gpus.moves().end(slot, {.sandbox = id, .direction = MoveDirection::kIn});
  EXPECT_TRUE(gpus.run(slot, 0));
  EXPECT_EQ(parts.log.counters().prefetch_hits, 1u);
}

TEST(DevicePools, FindASandboxAndThePoolThatHasIt) {
  Parts parts;
  parts.add_function(kF, Bytes::gib(1));
  parts.add_function(FunctionId{2}, Bytes(0));
  const SandboxId on_gpu = parts.run_one(1, kF);
  const SandboxId on_host = parts.run_one(2, FunctionId{2});
  EXPECT_EQ(&parts.pools.find(on_gpu)->pool, &parts.pools.gpu);
  EXPECT_EQ(&parts.pools.find(on_host)->pool, &parts.pools.host);
  EXPECT_FALSE(parts.pools.find(SandboxId{99}));
}

}  // namespace
}  // namespace lambent::dispatch
