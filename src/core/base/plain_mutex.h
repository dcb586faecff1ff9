// PlainMutex, PlainLock and PlainCondition: pthread's, annotated like those of mutex.h. For
// libraries that are loaded into programs of others: they need no C++ library, no constructor runs
// before main, and a forked child can begin again with them. Any thread.
#pragma once

#include <pthread.h>
#include <time.h>

#include "core/base/thread_annotations.h"

namespace lambent {

class IS_MUTEX PlainMutex {
 public:
  constexpr PlainMutex() = default;
  PlainMutex(const PlainMutex&) = delete;
  PlainMutex& operator=(const PlainMutex&) = delete;

  // For a lock that no scope holds; elsewhere PlainLock.
  void lock() ACQUIRE() { pthread_mutex_lock(&mutex_); }
  void unlock() RELEASE() { pthread_mutex_unlock(&mutex_); }
  // For a forked child, which has one thread: whatever thread of the parent held the mutex, it is
  // free now.
  void free_in_child() { mutex_ = PTHREAD_MUTEX_INITIALIZER; }
  // Tells clang that the mutex is held where it cannot see it: in a lambda that runs under a lock.
  void assert_held() const ASSERT_HELD(this) {}

 private:
  friend class PlainCondition;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

// Holds a mutex from its construction to its end.
class IS_LOCK PlainLock {
 public:
  explicit PlainLock(PlainMutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~PlainLock() RELEASE() { mutex_.unlock(); }
  PlainLock(const PlainLock&) = delete;
  PlainLock& operator=(const PlainLock&) = delete;

 private:
  PlainMutex& mutex_;
};

// Waits for a change of what a mutex guards. Waits may end without one, so they stand in a loop.
class PlainCondition {
 public:
  constexpr PlainCondition() = default;
  PlainCondition(const PlainCondition&) = delete;
  PlainCondition& operator=(const PlainCondition&) = delete;

  void notify_all() { pthread_cond_broadcast(&condition_); }
  void wait(PlainMutex& mutex) REQUIRES(mutex) { pthread_cond_wait(&condition_, &mutex.mutex_); }
  // Until an instant of CLOCK_MONOTONIC at the latest; false if that is over.
  bool wait_until(PlainMutex& mutex, const timespec& deadline) REQUIRES(mutex) {
    return pthread_cond_clockwait(&condition_, &mutex.mutex_, CLOCK_MONOTONIC, &deadline) == 0;
  }
  // For a forked child, in which no thread waits.
  void free_in_child() { condition_ = PTHREAD_COND_INITIALIZER; }

 private:
  pthread_cond_t condition_ = PTHREAD_COND_INITIALIZER;
};

}  // namespace lambent
