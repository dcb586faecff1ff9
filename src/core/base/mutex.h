// Mutex, MutexLock and Condition: the standard ones, with annotations by which clang proves that
// what a mutex guards is touched with it held. With other compilers they cost what the standard
// ones cost. Any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "core/base/thread_annotations.h"

namespace lambent {

class IS_MUTEX Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  // For a lock that no scope holds, such as around a fork; elsewhere MutexLock.
  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }
  // Tells clang that the mutex is held where it cannot see it: in a lambda that runs under a lock.
  void assert_held() const ASSERT_HELD(this) {}

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds a mutex from its construction to its end, but for where it is unlocked.
class IS_LOCK MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() RELEASE() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() RELEASE() { lock_.unlock(); }
  void lock() ACQUIRE() { lock_.lock(); }

 private:
  friend class Condition;
  std::unique_lock<std::mutex> lock_;
};

// Waits for a change of what a mutex guards. Waits may end without one, so they stand in a loop:
//   while (queue_.empty()) changed_.wait(lock);
class Condition {
 public:
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }
  void wait(MutexLock& lock) { condition_.wait(lock.lock_); }
  // At most so long; false if that is over.
  template <typename Rep, typename Period>
  bool wait_for(MutexLock& lock, std::chrono::duration<Rep, Period> most) {
    return condition_.wait_for(lock.lock_, most) == std::cv_status::no_timeout;
  }

 private:
  std::condition_variable condition_;
};

}  // namespace lambent
