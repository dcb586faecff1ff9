#include "decide/dispatch/sandbox_waits.h"

#include "decide/dispatch/testing/device_pool_parts.h"

namespace lambent::dispatch {
namespace {

using scheduling::kNoSandbox;
using scheduling::Place;
using scheduling::SandboxSlot;
using scheduling::SandboxState;

using SandboxWaitsTest = DevicePoolParts;

TEST_F(SandboxWaitsTest, StartAPlannedSandboxWhenItsPlaceIsFree) {
  const SandboxSlot evicted = idle(1);
  idle(2);
  const SandboxSlot planned = plan(3);
  pool().waits().wait_to_start(planned);
  const auto start = [&](SandboxSlot slot) { pool().start(slot); };
  pool().waits().start_planned(start);
  EXPECT_EQ(state(planned), SandboxState::kPlanned);
  pool().remove(evicted);
  pool().waits().start_planned(start);
  EXPECT_EQ(state(planned), SandboxState::kStarting);
  EXPECT_FALSE(pool().waits().last_planned_on(0));
}

TEST_F(SandboxWaitsTest, DropOnlyThosePlannedOnesThatTheyAreAskedTo) {
  parts_.flow(kF).device_memory = Bytes::gib(1);
  for (const uint64_t id : {1, 2, 3}) pool().waits().wait_to_start(plan(id));
  std::vector<SandboxId> dropped;
  pool().waits().drop_planned([](const auto& sandbox) { return sandbox.id != SandboxId{2}; },
                              [&](SandboxSlot slot) {
                                dropped.push_back(pool().fleet().sandbox(slot).id);
                                pool().remove(slot);
                              });
  EXPECT_EQ(dropped, (std::vector{SandboxId{1}, SandboxId{3}}));
  EXPECT_EQ(pool().waits().last_planned_on(0), pool().fleet().find(SandboxId{2}));
}

TEST_F(SandboxWaitsTest, RunReadySandboxesAsTokensComeAndGiveUpWhereNoneCan) {
  DispatchOptions options = one_gpu(scheduling::MemoryRule::kEverySandbox);
  options.fleet.devices[0].tokens = 1;
  options.fleet.starts_outside_tokens = 1;
  Parts parts(options);
  parts.add_function(kF, Bytes::gib(1));
  DevicePool& pool = parts.pools.gpu;
  const SandboxSlot first = pool.plan(SandboxId{1}, kF, Place{0, kNoSandbox}, 0);
  const SandboxSlot second = pool.plan(SandboxId{2}, kF, Place{0, kNoSandbox}, 1);
  for (const SandboxSlot slot : {first, second}) {
    pool.start(slot);
    pool.started(slot);
    pool.waits().wait_to_run(slot);
  }
  std::vector<SandboxSlot> ran, given_up;
  const auto run_ready = [&] {
    pool.waits().run_ready([&](SandboxSlot slot) { ran.push_back(slot), pool.run(slot, slot); },
                           [&](SandboxSlot slot) { given_up.push_back(slot); });
  };
  run_ready();
  ASSERT_EQ(ran.size(), 1u);
  EXPECT_TRUE(given_up.empty());
  const SandboxSlot other = ran[0] == first ? second : first;
  EXPECT_TRUE(pool.waits().waits_to_run(other));
  // The one that holds the token does not go.
  pool.stop(ran[0], StopReason::kTimedOut);
  pool.fleet().keep_counting(ran[0]);
  run_ready();
  EXPECT_EQ(ran.size(), 1u);
  EXPECT_EQ(given_up, std::vector{other});
  EXPECT_FALSE(pool.waits().waits_to_run(other));
}

}  // namespace
}  // namespace lambent::dispatch
