#include "decide/dispatch/memory_moves.h"

#include <gtest/gtest.h>

#include "decide/dispatch/testing/parts.h"

namespace lambent::dispatch {
namespace {

using scheduling::MemoryState;
using scheduling::SandboxSlot;

constexpr FunctionId kF{1};
constexpr FunctionId kOther{2};

// An idle sandbox of kF with 10 GiB on a GPU of 16.
class MemoryMovesTest : public testing::Test {
 protected:
  MemoryMovesTest() {
    parts_.add_function(kF, Bytes::gib(10));
    parts_.add_function(kOther, Bytes::gib(10));
    id_ = parts_.run_one(1, kF);
    slot_ = *fleet().find(id_);
    parts_.at(1);
  }
  scheduling::Fleet& fleet() { return parts_.pools.gpu.fleet(); }
  MemoryMoves& moves() { return parts_.pools.gpu.moves(); }
  MemoryState memory_state() { return fleet().sandbox(slot_).memory_state; }
  MoveEnd end(MoveDirection direction, bool done = true, Bytes offloaded = Bytes(0)) {
    return moves().end(slot_, {.sandbox = id_,
                               .direction = direction,
                               .done = done,
                               .moved = Bytes::gib(10),
                               .offloaded = offloaded});
  }
  void move_out(Bytes offloaded = Bytes(0)) {
    moves().move_out(slot_, MoveDepth::kMemory);
    end(MoveDirection::kOut, true, offloaded);
  }
  // Another function's sandbox takes 10 GiB of the GPU.
  SandboxId fill() { return parts_.run_one(2, kOther); }

  Parts parts_;
  SandboxId id_;
  SandboxSlot slot_ = 0;
};

TEST_F(MemoryMovesTest, MoveMemoryOutAndCountIt) {
  moves().move_out(slot_, MoveDepth::kMemory);
  EXPECT_EQ(parts_.got<MoveMemoryOut>().size(), 1u);
  EXPECT_TRUE(moves().is_moving(slot_, MoveDirection::kOut));
  EXPECT_FALSE(moves().is_moving(slot_, MoveDirection::kIn));
  EXPECT_EQ(end(MoveDirection::kOut), MoveEnd::kDone);
  EXPECT_EQ(memory_state(), MemoryState::kOut);
  EXPECT_EQ(parts_.log.counters().moves_out, 1u);
  EXPECT_EQ(parts_.log.counters().moved_bytes, Bytes::gib(10).count);
}

TEST_F(MemoryMovesTest, GiveAMoveOnlySoMuchTime) {
  moves().move_out(slot_, MoveDepth::kMemory);
  const Instant end_of_wait = Instant(seconds(1)) + parts_.options.move_timeout;
  EXPECT_EQ(moves().earliest_deadline(kNever), end_of_wait);
  end(MoveDirection::kOut);
  EXPECT_EQ(moves().earliest_deadline(kNever), kNever);
}

TEST_F(MemoryMovesTest, BringMemoryBackForARunOnceItFindsRoom) {
  move_out();
  const SandboxId other = fill();
  parts_.submit(3, kF);
  fleet().run(slot_, parts_.log.now());
  moves().await(slot_);
  EXPECT_TRUE(parts_.got<MoveMemoryIn>().empty());
  EXPECT_EQ(moves().last_wanting_on(0), slot_);
  parts_.pools.gpu.stop(*fleet().find(other), StopReason::kEvicted);
  parts_.pools.gpu.remove(*fleet().find(other));
  moves().move_in_wanting();
  EXPECT_EQ(parts_.got<MoveMemoryIn>().size(), 1u);
  EXPECT_FALSE(moves().last_wanting_on(0));
  EXPECT_EQ(end(MoveDirection::kIn), MoveEnd::kArrived);
  EXPECT_EQ(moves().earliest_deadline(kNever), kNever);
}

// A sandbox that is in the way has so much time, from the same moment on, and is to be stopped
// first.
TEST_F(MemoryMovesTest, WaitTwiceAsLongAsAMoveMayTakeAndGiveTheOwnMoveItsWholeTime) {
  move_out();
  const SandboxId other = fill();
  const SandboxSlot in_the_way = *fleet().find(other);
  parts_.at(3);
  fleet().run(slot_, parts_.log.now());
  moves().await(slot_);
  moves().move_out(in_the_way, MoveDepth::kMemory);
  const Duration timeout = parts_.options.move_timeout;
  const int timeout_s = static_cast<int>(to_seconds(timeout));
  parts_.at(3 + timeout_s);
  ASSERT_TRUE(moves().any_expired(parts_.log.now()));
  EXPECT_EQ(moves().pop_expired(), in_the_way);
  EXPECT_FALSE(moves().any_expired(parts_.log.now())) << "the one that waits goes on waiting";
  parts_.pools.gpu.stop(in_the_way, StopReason::kMoveFailed);
  parts_.pools.gpu.remove(in_the_way);
  parts_.at(4 + timeout_s);
  moves().move_in_wanting();
  ASSERT_EQ(parts_.got<MoveMemoryIn>().size(), 1u);
  EXPECT_EQ(moves().earliest_deadline(kNever), parts_.log.now() + timeout);
}

// Else its owner would keep a neighbour waiting by invoking it.
TEST_F(MemoryMovesTest, GiveAMoveOutNoMoreTimeForAnInvocationThatComesMeanwhile) {
  moves().move_out(slot_, MoveDepth::kMemory);
  const Instant end_of_move = parts_.log.now() + parts_.options.move_timeout;
  parts_.at(5);
  fleet().run(slot_, parts_.log.now());
  moves().await(slot_);
  EXPECT_EQ(moves().earliest_deadline(kNever), end_of_move);
  parts_.at(6);
  EXPECT_EQ(end(MoveDirection::kOut), MoveEnd::kDone);
  EXPECT_EQ(moves().earliest_deadline(kNever), parts_.log.now() + parts_.options.move_wait());
}

TEST_F(MemoryMovesTest, GiveUpAMoveInThatFailsTwice) {
  move_out();
  fleet().run(slot_, parts_.log.now());
  moves().await(slot_);
  EXPECT_EQ(end(MoveDirection::kIn, false), MoveEnd::kInFailed);
  EXPECT_EQ(moves().last_wanting_on(0), slot_);
  moves().move_in_wanting();
  EXPECT_EQ(end(MoveDirection::kIn, false), MoveEnd::kInGivenUp);
  EXPECT_EQ(parts_.log.counters().failed_moves, 2u);
}

TEST_F(MemoryMovesTest, ReportAMoveOutThatFailed) {
  moves().move_out(slot_, MoveDepth::kMemory);
  EXPECT_EQ(end(MoveDirection::kOut, false), MoveEnd::kOutFailed);
  EXPECT_EQ(memory_state(), MemoryState::kIn);
}

TEST_F(MemoryMovesTest, PrefetchAnIdleSandbox) {
  move_out();
  moves().prefetch(slot_);
  EXPECT_EQ(memory_state(), MemoryState::kMovingIn);
  EXPECT_EQ(parts_.log.counters().prefetches, 1u);
  EXPECT_EQ(end(MoveDirection::kIn), MoveEnd::kDone);
}

TEST_F(MemoryMovesTest, ForgetASandboxThatIsStopped) {
  move_out();
  fill();
  fleet().run(slot_, parts_.log.now());
  moves().await(slot_);
  moves().forget(slot_);
  EXPECT_FALSE(moves().last_wanting_on(0));
  EXPECT_EQ(moves().earliest_deadline(kNever), kNever);
}

TEST(MemoryMoves, MoveMemoryOutAfterEachRunIfThePolicyWantsIt) {
  Parts parts(one_gpu(), true);
  parts.add_function(kF, Bytes::gib(10));
  const SandboxId sandbox = parts.run_one(1, kF);
  const auto moved_out = parts.got<MoveMemoryOut>();
  ASSERT_EQ(moved_out.size(), 1u);
  EXPECT_EQ(moved_out[0].sandbox, sandbox);
}

// A sandbox that runs with 6 of its 10 GiB offloaded.
class FetchesTest : public MemoryMovesTest {
 protected:
  FetchesTest() {
    move_out(Bytes::gib(6));
    fleet().run(slot_, parts_.log.now());
    moves().await(slot_);
    end(MoveDirection::kIn);
  }
  std::vector<Bytes> granted() {
    std::vector<Bytes> bytes;
    for (const GrantMemory& grant : parts_.got<GrantMemory>()) bytes.push_back(grant.bytes);
    return bytes;
  }
};

TEST_F(FetchesTest, AreGrantedWhereThereIsRoom) {
  moves().want(slot_, Bytes::gib(2));
  EXPECT_TRUE(granted().empty());
  moves().grant_fetches();
  EXPECT_EQ(granted(), std::vector{Bytes::gib(2)});
  EXPECT_EQ(fleet().sandbox(slot_).offloaded, Bytes::gib(4));
  EXPECT_EQ(parts_.log.counters().fetches, 1u);
}

TEST_F(FetchesTest, AreRefusedAtOnceBesideOthersAtWork) {
  parts_.submit(2, kOther);
  ASSERT_TRUE(parts_.dispatch(kOther));
  moves().want(slot_, Bytes::gib(6));
  EXPECT_EQ(granted(), std::vector{Bytes(0)});
  EXPECT_EQ(parts_.log.counters().refused_fetches, 1u);
}

TEST_F(FetchesTest, NeedNoRoomForMemoryThatIsCounted) {
  moves().want(slot_, Bytes::gib(6));
  moves().grant_fetches();
  moves().want(slot_, Bytes::gib(1));
  EXPECT_EQ(granted(), (std::vector{Bytes::gib(6), Bytes::gib(1)}));
}

TEST_F(FetchesTest, AreRefusedOnceTheDeviceIsShortOfMemory) {
  moves().want(slot_, Bytes::gib(6));
  moves().refuse_fetches_beyond(0);
  EXPECT_TRUE(granted().empty());
  fleet().set_taken(0, Bytes::gib(8));
  moves().refuse_fetches_beyond(0);
  EXPECT_EQ(granted(), std::vector{Bytes(0)});
}

}  // namespace
}  // namespace lambent::dispatch
