#include "core/loop/event_loop.h"
#include "core/loop/limits.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace lambent::loop {
namespace {

struct Pipe {
  Pipe() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    near = OwnedFd(fds[0]);
    far = OwnedFd(fds[1]);
  }
  void make_readable() const { EXPECT_EQ(write(far.get(), "x", 1), 1); }
  void drain() const {
    char byte;
    EXPECT_EQ(read(near.get(), &byte, 1), 1);
  }
  OwnedFd near;
  OwnedFd far;
};

class EventLoopTest : public testing::Test {
 protected:
  void turn() { loop.run_once(Duration::zero()); }

  FakeClock clock;
  EventLoop loop{clock};
};

TEST_F(EventLoopTest, TimersRunInOrderOfInstantThenOfArming) {
  std::string order;
  loop.call_after(milliseconds(2), [&] { order += 'c'; });
  loop.call_after(milliseconds(1), [&] { order += 'a'; });
  loop.call_after(milliseconds(1), [&] { order += 'b'; });
  turn();
  EXPECT_EQ(order, "");
  clock.advance(milliseconds(1));
  turn();
  EXPECT_EQ(order, "ab");
  clock.advance(milliseconds(1));
  turn();
  EXPECT_EQ(order, "abc");
}

TEST_F(EventLoopTest, ACancelledTimerDoesNotRunAndItsCapturesAreFreedAtOnce) {
  auto held = std::make_shared<int>(1);
  const TimerId timer = loop.call_after(milliseconds(1), [held] { FAIL(); });
  EXPECT_EQ(held.use_count(), 2);
  loop.cancel(timer);
  EXPECT_EQ(held.use_count(), 1);
  loop.cancel(timer);
  clock.advance(milliseconds(2));
  turn();
}

TEST_F(EventLoopTest, ATimerMayCancelAnotherThatIsDueInTheSameTurn) {
  TimerId second;
  loop.call_after(milliseconds(1), [&] { loop.cancel(second); });
  second = loop.call_after(milliseconds(1), [] { FAIL(); });
  clock.advance(milliseconds(5));
  turn();
}

TEST_F(EventLoopTest, ATimerMayCancelItselfAndArmItselfAgain) {
  int runs = 0;
  TimerId timer;
  std::function<void()> task = [&] {
    runs++;
    loop.cancel(timer);
    timer = loop.call_after(Duration::zero(), task);
  };
  timer = loop.call_after(Duration::zero(), task);
  turn();
  EXPECT_EQ(runs, 1) << "a timer armed for now waits for the next turn";
  turn();
  EXPECT_EQ(runs, 2);
}

TEST_F(EventLoopTest, ManyTimersCancelledAtRandomLeaveTheOthersInOrder) {
  std::vector<TimerId> timers;
  std::vector<int> ran;
  for (int i = 0; i < 1000; i++) {
    const int delay = i * 7919 % 1000;
    timers.push_back(loop.call_after(milliseconds(delay), [&ran, delay] { ran.push_back(delay); }));
  }
  for (int i = 0; i < 1000; i += 3) loop.cancel(timers[i]);
  clock.advance(seconds(2));
  turn();
  EXPECT_EQ(ran.size(), 666u);
  EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end()));
}

TEST_F(EventLoopTest, AStaleTimerIdDoesNotCancelTheTimerThatTookItsPlace) {
  int runs = 0;
  const TimerId old = loop.call_after(Duration::zero(), [] {});
  turn();
  loop.call_after(Duration::zero(), [&] { runs++; });
  loop.cancel(old);
  turn();
  EXPECT_EQ(runs, 1);
}

TEST_F(EventLoopTest, AWatchReportsWhatItWasAskedFor) {
  const Pipe pipe;
  Readiness seen;
  Watch watch = loop.watch(pipe.near.get(), true, false, [&](Readiness ready) { seen = ready; });
  ASSERT_TRUE(watch.active());
  turn();
  EXPECT_FALSE(seen.readable);
  pipe.make_readable();
  turn();
  EXPECT_TRUE(seen.readable);
  EXPECT_FALSE(seen.writable);
  seen = {};
  watch.update(false, true);
  turn();
  EXPECT_FALSE(seen.readable);
  EXPECT_TRUE(seen.writable);
}

TEST_F(EventLoopTest, HangUpIsReportedEvenWhenNothingIsWatchedFor) {
  Pipe pipe;
  bool hung_up = false;
  const Watch watch =
      loop.watch(pipe.near.get(), false, false, [&](Readiness ready) { hung_up = ready.hung_up; });
  turn();
  EXPECT_FALSE(hung_up);
  pipe.far.reset();
  turn();
  EXPECT_TRUE(hung_up);
}

TEST_F(EventLoopTest, AWatchMayBeDestroyedInItsOwnCallback) {
  const Pipe pipe;
  auto held = std::make_shared<int>(0);
  auto watch = std::make_unique<Watch>();
  *watch = loop.watch(pipe.near.get(), true, false, [&watch, held](Readiness) {
    watch.reset();
    ++*held;  // the callback itself is still alive
  });
  pipe.make_readable();
  turn();
  turn();
  EXPECT_EQ(*held, 1);
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(EventLoopTest, AWatchDestroyedByAnotherCallbackOfTheSameTurnIsNotCalled) {
  const Pipe first;
  const Pipe second;
  int calls = 0;
  Watch watches[2];
  watches[0] = loop.watch(first.near.get(), true, false, [&](Readiness) {
    calls++;
    watches[1].reset();
  });
  watches[1] = loop.watch(second.near.get(), true, false, [&](Readiness) {
    calls++;
    watches[0].reset();
  });
  first.make_readable();
  second.make_readable();
  turn();
  EXPECT_EQ(calls, 1);
}

TEST_F(EventLoopTest, AWatchMadeInACallbackThatDestroyedAnotherDoesNotGetItsEvents) {
  const Pipe first;
  const Pipe second;
  const Pipe quiet;
  int wrong = 0;
  Watch a;
  Watch b;
  Watch replacement;
  const auto replace = [&](Watch& victim) {
    if (replacement.active()) return;
    victim.reset();
    replacement = loop.watch(quiet.near.get(), true, false, [&](Readiness) { wrong++; });
  };
  a = loop.watch(first.near.get(), true, false, [&](Readiness) { replace(b); });
  b = loop.watch(second.near.get(), true, false, [&](Readiness) { replace(a); });
  first.make_readable();
  second.make_readable();
  turn();
  EXPECT_TRUE(replacement.active());
  EXPECT_EQ(wrong, 0);
}

TEST_F(EventLoopTest, AMovedWatchStaysActive) {
  const Pipe pipe;
  int calls = 0;
  Watch first = loop.watch(pipe.near.get(), true, false, [&](Readiness) {
    calls++;
    pipe.drain();
  });
  Watch second = std::move(first);
  EXPECT_FALSE(first.active());
  pipe.make_readable();
  turn();
  EXPECT_EQ(calls, 1);
}

TEST_F(EventLoopTest, ARegularFileCannotBeWatched) {
  char path[] = "/tmp/loop_test_XXXXXX";
  const OwnedFd file(mkstemp(path));
  unlink(path);
  EXPECT_FALSE(loop.watch(file.get(), true, false, [](Readiness) {}).active());
}

TEST_F(EventLoopTest, PostedTasksRunInOrderAndThoseTheyPostRunInTheNextTurn) {
  std::string order;
  loop.post([&] {
    order += 'a';
    loop.post([&] { order += 'c'; });
  });
  loop.post([&] { order += 'b'; });
  turn();
  EXPECT_EQ(order, "ab");
  turn();
  EXPECT_EQ(order, "abc");
}

TEST_F(EventLoopTest, AFullMailboxRefusesUntilItIsEmptied) {
  size_t ran = 0;
  for (size_t i = 0; i < limits::kMailbox; i++) ASSERT_TRUE(loop.post([&] { ran++; }));
  EXPECT_FALSE(loop.post([] { FAIL(); }));
  turn();
  EXPECT_EQ(ran, limits::kMailbox);
  EXPECT_TRUE(loop.post([&] { ran++; }));
  turn();
  EXPECT_EQ(ran, limits::kMailbox + 1);
}

TEST_F(EventLoopTest, StopBeforeRunMakesRunReturnAtOnce) {
  loop.stop();
  loop.run();
  loop.post([&] { loop.stop(); });
  loop.run();
}

TEST_F(EventLoopTest, TheTimeStandsStillWithinATurn) {
  Instant first;
  Instant second;
  loop.post([&] {
    first = loop.now();
    clock.advance(seconds(1));
    second = loop.now();
  });
  turn();
  EXPECT_EQ(first, second);
  turn();
  EXPECT_EQ(loop.now(), second + seconds(1));
}

TEST(EventLoop, DestroyingTheLoopDestroysWhatItsTasksHoldWhileItStillAnswers) {
  FakeClock clock;
  const Pipe pipe;
  auto loop = std::make_unique<EventLoop>(clock);
  auto watch = std::make_shared<Watch>();
  *watch = loop->watch(pipe.near.get(), true, false, [watch](Readiness) {});
  bool asked = false;
  std::shared_ptr<void> poster(nullptr, [&asked, borrowed = loop.get()](void*) {
    asked = true;
    EXPECT_FALSE(borrowed->post([] {}));
  });
  loop->post([watch, poster] {});
  loop->call_after(seconds(1), [watch, poster] {});
  const std::weak_ptr<Watch> gone = watch;
  watch.reset();
  poster.reset();
  EXPECT_FALSE(gone.expired());
  loop.reset();
  EXPECT_TRUE(gone.expired());
  EXPECT_TRUE(asked);
}

TEST(EventLoop, WakesFromSleepForPostsOfManyThreadsAndKeepsEachOnesOrder) {
  const SystemClock clock;
  EventLoop loop(clock);
  constexpr int kThreads = 4;
  constexpr int kPosts = 2000;
  std::vector<int> last(kThreads, -1);
  int received = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kPosts; i++) {
        while (!loop.post([&, t, i] {
          EXPECT_EQ(last[t] + 1, i);
          last[t] = i;
          if (++received == kThreads * kPosts) loop.stop();
        })) {
          std::this_thread::yield();
        }
      }
    });
  }
  loop.run();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(received, kThreads * kPosts);
}

TEST(EventLoop, StopFromAnotherThreadEndsASleepingLoop) {
  const SystemClock clock;
  EventLoop loop(clock);
  std::thread stopper([&] { loop.stop(); });
  loop.run();
  stopper.join();
}

TEST(EventLoop, WaitsForATimerAndNotMuchLonger) {
  const SystemClock clock;
  EventLoop loop(clock);
  const Instant start = clock.now();
  loop.call_after(milliseconds(3), [&] { loop.stop(); });
  loop.run();
  EXPECT_GE(clock.now() - start, milliseconds(3));
}

}  // namespace
}  // namespace lambent::loop
