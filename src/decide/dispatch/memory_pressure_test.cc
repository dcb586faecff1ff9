#include "decide/dispatch/memory_pressure.h"

#include <gtest/gtest.h>

#include "decide/dispatch/testing/parts.h"

namespace lambent::dispatch {
namespace {

using scheduling::MemoryState;
using scheduling::SandboxSlot;
using scheduling::SandboxState;

constexpr FunctionId kF{1};
constexpr FunctionId kOther{2};

// Two functions of 10 GiB each on a GPU of 16; the first one's sandbox is idle.
class MemoryPressureTest : public testing::Test {
 protected:
  MemoryPressureTest() {
    parts_.add_function(kF, Bytes::gib(10));
    parts_.add_function(kOther, Bytes::gib(10));
    id_ = parts_.run_one(1, kF);
    slot_ = *fleet().find(id_);
    parts_.at(1);
  }
  scheduling::Fleet& fleet() { return parts_.pools.gpu.fleet(); }
  MemoryMoves& moves() { return parts_.pools.gpu.moves(); }
  const scheduling::Sandbox& sandbox() { return fleet().sandbox(slot_); }
  void move_out() {
    moves().move_out(slot_, MoveDepth::kMemory);
    moves().end(slot_, {.sandbox = id_, .direction = MoveDirection::kOut});
  }

  Parts parts_;
  SandboxId id_;
  SandboxSlot slot_ = 0;
};

TEST_F(MemoryPressureTest, MovesIdleMemoryOutOnlyForThoseThatWereAdmitted) {
  parts_.pressure.make_room();
  EXPECT_TRUE(parts_.actions.empty());
  parts_.submit(2, kOther);
  ASSERT_TRUE(parts_.dispatch(kOther));
  parts_.pressure.make_room();
  EXPECT_EQ(parts_.got<MoveMemoryOut>().size(), 1u);
  parts_.pressure.make_room();
  EXPECT_EQ(parts_.got<MoveMemoryOut>().size(), 1u) << "enough is on its way";
}

TEST_F(MemoryPressureTest, MovesNothingEarlyUnlessTheRuleSaysSo) {
  parts_.pressure.move_out_early();
  EXPECT_TRUE(parts_.actions.empty());
}

// Under the other rule: two functions of which nothing waits or runs, and that have memory there.
TEST(MemoryThatLeavesEarly, GoesOneAfterTheOtherAndNotWhereSomethingWaits) {
  Parts parts{one_gpu(scheduling::MemoryRule::kMoveEarly)};
  for (const FunctionId function : {kF, kOther}) parts.add_function(function, Bytes::gib(4));
  const SandboxId first = parts.run_one(1, kF);
  const SandboxId second = parts.run_one(2, kOther);
  scheduling::Fleet& fleet = parts.pools.gpu.fleet();
  MemoryMoves& moves = parts.pools.gpu.moves();
  parts.submit(3, kF);  // its flow is active now
  parts.at(1);
  parts.pressure.move_out_early();
  ASSERT_EQ(parts.got<MoveMemoryOut>().size(), 1u);
  EXPECT_EQ(parts.got<MoveMemoryOut>().front().sandbox, second);
  parts.pressure.move_out_early();
  EXPECT_EQ(parts.got<MoveMemoryOut>().size(), 1u) << "one at a time";
  moves.end(*fleet.find(second), {.sandbox = second, .direction = MoveDirection::kOut});
  parts.pressure.move_out_early();
  EXPECT_EQ(parts.got<MoveMemoryOut>().size(), 1u) << "that of an active flow stays";
  EXPECT_EQ(fleet.sandbox(*fleet.find(first)).memory_state, MemoryState::kIn);
}

TEST_F(MemoryPressureTest, EvictsWhereMemoryCannotMove) {
  fleet().set_taken(0, Bytes::gib(10));
  moves().move_out(slot_, MoveDepth::kMemory);
  moves().end(slot_, {.sandbox = id_, .direction = MoveDirection::kOut, .done = false});
  parts_.pressure.move_out_failed(slot_);
  EXPECT_EQ(sandbox().state, SandboxState::kStopping);
}

TEST_F(MemoryPressureTest, KeepsASandboxThatCouldNotMoveWhereNothingIsShort) {
  moves().move_out(slot_, MoveDepth::kMemory);
  moves().end(slot_, {.sandbox = id_, .direction = MoveDirection::kOut, .done = false});
  parts_.pressure.move_out_failed(slot_);
  EXPECT_EQ(sandbox().state, SandboxState::kIdle);
}

TEST_F(MemoryPressureTest, FetchesAheadForAFlowThatWaitsWhereThereIsRoom) {
  move_out();
  parts_.pressure.prefetch();
  EXPECT_TRUE(parts_.got<MoveMemoryIn>().empty()) << "no flow waits";
  parts_.submit(2, kF);
  parts_.pressure.prefetch();
  EXPECT_EQ(parts_.got<MoveMemoryIn>().size(), 1u);
  EXPECT_EQ(parts_.log.counters().prefetches, 1u);
}

TEST_F(MemoryPressureTest, FetchesNothingAheadIfTheOperatorWantsNone) {
  parts_.options.fleet.prefetch = false;
  move_out();
  parts_.submit(2, kF);
  parts_.pressure.prefetch();
  EXPECT_TRUE(parts_.got<MoveMemoryIn>().empty());
}

TEST_F(MemoryPressureTest, MovesUnwantedMemoryOutBeforeItFetchesAhead) {
  move_out();
  const SandboxId other = parts_.run_one(2, kOther);
  parts_.at(1000);
  parts_.submit(3, kF);
  parts_.pressure.prefetch();
  const auto moved_out = parts_.got<MoveMemoryOut>();
  ASSERT_EQ(moved_out.size(), 1u);
  EXPECT_EQ(moved_out[0].sandbox, other);
  EXPECT_TRUE(parts_.got<MoveMemoryIn>().empty());
}

// What leaves the first of two GPUs makes room on the second as well, though there another one was
// used longer ago.
TEST(MemoryPressure, MovesNoMoreOutForOneOnTwoGpusThanMakesRoomOnBoth) {
  DispatchOptions options = one_gpu();
  options.fleet.devices.push_back({.id = DeviceId{2}, .memory = Bytes::gib(16)});
  Parts parts(options);
  const FunctionId on_one{3};
  const auto add = [&](FunctionId function, uint64_t gib, unsigned gpus) {
    parts.functions.registered({{.id = function,
                                 .tenant = TenantId{1},
                                 .device_memory = Bytes::gib(gib),
                                 .gpu_count = gpus}});
  };
  add(kF, 6, 2);
  add(kOther, 12, 2);
  add(on_one, 4, 1);
  scheduling::Fleet& fleet = parts.pools.gpu.fleet();
  MemoryMoves& moves = parts.pools.gpu.moves();
  const SandboxId next = parts.run_one(1, kF);
  moves.move_out(*fleet.find(next), MoveDepth::kMemory);
  moves.end(*fleet.find(next), {.sandbox = next, .direction = MoveDirection::kOut});
  fleet.set_taken(0, Bytes::gib(16));
  const SandboxId small = parts.run_one(2, on_one);
  fleet.set_taken(0, Bytes(0));
  ASSERT_TRUE(parts.gpu_sandbox(small).is_on(1));
  parts.at(1);
  const SandboxId large = parts.run_one(3, kOther);
  parts.at(1000);
  parts.submit(4, kF);
  parts.pressure.prefetch();
  const auto moved_out = parts.got<MoveMemoryOut>();
  ASSERT_EQ(moved_out.size(), 1u);
  EXPECT_EQ(moved_out[0].sandbox, large);
}

TEST(MemoryPressure, EvictsIdleSandboxesBesideWhatIsTakenWhereNoMemoryMoves) {
  Parts parts(one_gpu(scheduling::MemoryRule::kEverySandbox));
  parts.add_function(kF, Bytes::gib(10));
  parts.run_one(1, kF);
  parts.pools.gpu.fleet().set_taken(0, Bytes::gib(6));
  EXPECT_FALSE(parts.pressure.make_room_beside_taken());
  parts.pools.gpu.fleet().set_taken(0, Bytes::gib(7));
  EXPECT_TRUE(parts.pressure.make_room_beside_taken());
  EXPECT_EQ(parts.got<StopSandbox>().size(), 1u);
}

}  // namespace
}  // namespace lambent::dispatch
