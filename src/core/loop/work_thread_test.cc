#include "core/loop/work_thread.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

namespace lambent::loop {
namespace {

// Closed until it is opened; work on the thread waits at it.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

TEST(WorkThreadTest, WorkRunsInOrderAndCompletesOnTheLoop) {
  const SystemClock clock;
  EventLoop loop(clock);
  WorkThread thread(loop);
  std::vector<int> worked;
  std::vector<int> completed;
  std::thread::id worker;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(thread.run(
        [&, i] {
          worker = std::this_thread::get_id();
          worked.push_back(i);
        },
        [&, i] {
          completed.push_back(i);
          EXPECT_NE(std::this_thread::get_id(), worker);
          if (i == 99) loop.stop();
        }));
  }
  loop.run();
  ASSERT_EQ(completed.size(), 100u);
  EXPECT_EQ(worked, completed);
  EXPECT_TRUE(std::is_sorted(completed.begin(), completed.end()));
}

TEST(WorkThreadTest, WhatWorkAndCompletionHoldIsTheCompletionsAlone) {
  const SystemClock clock;
  EventLoop loop(clock);
  WorkThread thread(loop);
  auto held = std::make_shared<int>();
  const std::weak_ptr<int> seen = held;
  ASSERT_TRUE(thread.run([held] {},
                         [&, held] {
                           EXPECT_EQ(seen.use_count(), 1);
                           loop.stop();
                         }));
  held.reset();
  loop.run();
  EXPECT_TRUE(seen.expired());
}

TEST(WorkThreadTest, AFullQueueSaysSo) {
  const SystemClock clock;
  EventLoop loop(clock);
  Gate started, gate;
  size_t ran = 0;
  {
    WorkThread thread(loop);
    ASSERT_TRUE(thread.run(
        [&] {
          started.open();
          gate.wait();
        },
        [] {}));
    started.wait();  // it is no longer queued
    for (size_t i = 0; i < WorkThread::kQueueLimit; ++i) {
      ASSERT_TRUE(thread.run([&] { ++ran; }, [] {}));
    }
    EXPECT_FALSE(thread.run([&] { ++ran; }, [] {}));
    gate.open();
  }
  EXPECT_EQ(ran, WorkThread::kQueueLimit) << "what was queued is finished before it ends";
}

}  // namespace
}  // namespace lambent::loop
