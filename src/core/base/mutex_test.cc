#include "core/base/mutex.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "core/base/plain_mutex.h"

namespace lambent {
namespace {

// Adds from several threads, each time in two steps that another thread would disturb.
template <typename AnyMutex, typename AnyLock>
int count_from_threads() {
  constexpr int kThreads = 4, kTimes = 2'000;
  AnyMutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < kTimes; ++n) {
        AnyLock lock(mutex);
        const int seen = count;
        // Each costs a turn of all that the machine runs.
        if (n % 50 == 0) std::this_thread::yield();
        count = seen + 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return count - kThreads * kTimes;
}

TEST(Mutex, OneThreadAtATimeHoldsIt) {
  EXPECT_EQ((count_from_threads<Mutex, MutexLock>()), 0);
  EXPECT_EQ((count_from_threads<PlainMutex, PlainLock>()), 0);
}

TEST(Mutex, ALockThatWasReleasedEarlyLetsAnotherThreadIn) {
  Mutex mutex;
  MutexLock lock(mutex);
  lock.unlock();
  int got = 0;
  std::thread([&] {
    MutexLock other(mutex);
    got = 1;
  }).join();
  lock.lock();
  EXPECT_EQ(got, 1);
}

TEST(Mutex, AConditionWakesWhoWaitsForAChange) {
  Mutex mutex;
  Condition changed;
  bool ready = false;
  std::thread other([&] {
    MutexLock lock(mutex);
    ready = true;
    changed.notify_all();
  });
  {
    MutexLock lock(mutex);
    while (!ready) changed.wait(lock);
    EXPECT_TRUE(ready);
  }
  other.join();
}

TEST(PlainMutex, AConditionWakesWhoWaitsForAChange) {
  PlainMutex mutex;
  PlainCondition changed;
  bool ready = false;
  std::thread other([&] {
    PlainLock lock(mutex);
    ready = true;
    changed.notify_all();
  });
  {
    PlainLock lock(mutex);
    while (!ready) changed.wait(mutex);
    EXPECT_TRUE(ready);
  }
  other.join();
}

TEST(PlainMutex, AWaitEndsAtItsDeadline) {
  PlainMutex mutex;
  PlainCondition never;
  PlainLock lock(mutex);
  timespec now;
  ASSERT_EQ(clock_gettime(CLOCK_MONOTONIC, &now), 0);
  while (never.wait_until(mutex, now)) {
  }
}

TEST(PlainMutex, AForkedChildFreesWhatAThreadOfItsParentHeld) {
  PlainMutex mutex;
  mutex.lock();
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);  // ends a child that would wait for ever
    mutex.free_in_child();
    PlainLock lock(mutex);
    _exit(0);
  }
  mutex.unlock();
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "the child did not get the mutex";
}

}  // namespace
}  // namespace lambent
