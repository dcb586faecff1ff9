#include "gpu/shim/gate.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace lambent::shim {
namespace {

constexpr uint64_t kLongEnough = 60'000'000'000;

uint64_t elapsed_since(std::chrono::steady_clock::time_point start) {
  return static_cast<uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count());
}

void wait_until_somebody_waits(uint64_t gated_before) {
  while (gated_ns() == gated_before) sched_yield();
}

TEST(Gate, LetsEverybodyPassWhileItIsOpen) {
  const uint64_t before = gated_ns();
  { const GateScope gate_scope; }
  EXPECT_EQ(gated_ns(), before);
  EXPECT_TRUE(wait_until_nobody_inside(0));
}

TEST(Gate, HoldsCallsBackUntilItOpensAndCountsTheTime) {
  const uint64_t before = gated_ns();
  std::atomic<bool> is_through = false;
  shut_gate();
  std::thread caller([&] {
    const GateScope gate_scope;
    is_through = true;
  });
  wait_until_somebody_waits(before);
  EXPECT_FALSE(is_through);
  EXPECT_TRUE(wait_until_nobody_inside(kLongEnough)) << "who waits is not inside";
  open_gate();
  caller.join();
  EXPECT_TRUE(is_through);
  const uint64_t after = gated_ns();
  EXPECT_GT(after, before);
  EXPECT_EQ(gated_ns(), after) << "no thread waits any more";
}

TEST(Gate, CountsTheTimeInWhichManyWaitOnce) {
  const uint64_t before = gated_ns();
  const auto start = std::chrono::steady_clock::now();
  std::atomic<int> arrived = 0;
  shut_gate();
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      ++arrived;
      const GateScope gate_scope;
    });
  }
  while (arrived < 8) sched_yield();
  wait_until_somebody_waits(before);
  open_gate();
  for (std::thread& caller : callers) caller.join();
  EXPECT_LE(gated_ns() - before, elapsed_since(start));
}

TEST(Gate, WaitsForWhoIsInside) {
  std::atomic<bool> is_inside = false;
  std::atomic<bool> may_leave = false;
  std::thread caller([&] {
    const GateScope gate_scope;
    is_inside = true;
    while (!may_leave) sched_yield();
  });
  while (!is_inside) sched_yield();
  shut_gate();
  EXPECT_FALSE(wait_until_nobody_inside(1));
  may_leave = true;
  EXPECT_TRUE(wait_until_nobody_inside(kLongEnough));
  open_gate();
  caller.join();
}

TEST(Gate, ACallInsideAnotherPassesFreely) {
  const uint64_t before = gated_ns();
  {
    const GateScope outer;
    shut_gate();
    { const GateScope inner; }
    EXPECT_FALSE(wait_until_nobody_inside(0)) << "the outer one is still there";
  }
  EXPECT_TRUE(wait_until_nobody_inside(0));
  open_gate();
  EXPECT_EQ(gated_ns(), before);
}

TEST(Gate, AGateBypassPassesAndNobodyWaitsForIt) {
  shut_gate();
  {
    const GateBypass key;
    const GateScope gate_scope;
    EXPECT_TRUE(wait_until_nobody_inside(0));
  }
  EXPECT_TRUE(wait_until_nobody_inside(0));
  open_gate();
}

TEST(Gate, AnOpeningLetsAllInWhoWaitHoweverShortItIs) {
  for (int round = 0; round < 200; ++round) {
    const uint64_t before = gated_ns();
    std::atomic<bool> may_leave = false;
    shut_gate();
    std::thread caller([&] {
      const GateScope gate_scope;
      while (!may_leave) sched_yield();
    });
    wait_until_somebody_waits(before);
    open_gate();
    shut_gate();
    EXPECT_FALSE(wait_until_nobody_inside(0)) << "the caller has entered";
    may_leave = true;
    EXPECT_TRUE(wait_until_nobody_inside(kLongEnough));
    open_gate();
    caller.join();
  }
}

TEST(Gate, ShuttingTwiceNeedsOneOpening) {
  shut_gate();
  shut_gate();
  open_gate();
  { const GateScope gate_scope; }
  open_gate();
  { const GateScope gate_scope; }
}

TEST(Gate, IsOpenAndEmptyInAForkedChild) {
  const GateScope forks_inside_a_call;
  shut_gate();
  const pid_t child = fork();
  if (child == 0) {
    const bool was_empty = wait_until_nobody_inside(0);
    { const GateScope gate_scope; }
    shut_gate();
    const bool is_empty = wait_until_nobody_inside(0);
    _exit(was_empty && is_empty && gated_ns() == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_FALSE(wait_until_nobody_inside(0)) << "the parent's is as it was";
  open_gate();
}

// Callers hold what the mover must not touch; the mover touches it only when no call is inside.
TEST(Gate, NobodyIsInsideWhileMemoryMoves) {
  constexpr int kMoves = 100;
  std::atomic<bool> is_over = false;
  std::atomic<uint64_t> calls = 0;
  uint64_t memory = 0;  // not atomic: the gate is what keeps them apart
  std::atomic<uint64_t> torn = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      while (!is_over) {
        const GateScope gate_scope;
        if (memory % 2 != 0) ++torn;
        ++calls;
      }
    });
  }
  for (int i = 0; i < kMoves; ++i) {
    const uint64_t calls_before = calls;
    while (calls == calls_before) sched_yield();
    shut_gate();
    ASSERT_TRUE(wait_until_nobody_inside(kLongEnough));
    ++memory;
    ++memory;
    open_gate();
  }
  is_over = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(torn, 0u);
  EXPECT_EQ(memory, 2u * kMoves);
}

}  // namespace
}  // namespace lambent::shim
