// Mutex, MutexLock and Condition: the standard ones, with annotations by which clang proves that
// what a mutex guards is touched with it held (-Wthread-safety, an error in ./dev check). Elsewhere
// they cost what the standard ones cost. Any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define LAMBENT_THREAD_ANNOTATION(annotation) __attribute__((annotation))
#else
#define LAMBENT_THREAD_ANNOTATION(annotation)
#endif

// Of a member: only with the mutex held.
#define GUARDED_BY(mutex) LAMBENT_THREAD_ANNOTATION(guarded_by(mutex))
// Of a function: its caller holds the mutex, or must not.
#define REQUIRES(...) LAMBENT_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
// Of a function that releases a lock that it was given, and takes it again: clang does not follow
// a lock through a reference.
#define NO_THREAD_SAFETY_ANALYSIS LAMBENT_THREAD_ANNOTATION(no_thread_safety_analysis)
// Of a mutex: which one is taken before it.
#define ACQUIRED_AFTER(...) LAMBENT_THREAD_ANNOTATION(acquired_after(__VA_ARGS__))

namespace lambent {

class LAMBENT_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds a mutex from its construction to its end, but for where it is unlocked.
class LAMBENT_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) LAMBENT_THREAD_ANNOTATION(acquire_capability(mutex))
      : lock_(mutex.mutex_) {}
  ~MutexLock() LAMBENT_THREAD_ANNOTATION(release_capability()) {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() LAMBENT_THREAD_ANNOTATION(release_capability()) { lock_.unlock(); }
  void lock() LAMBENT_THREAD_ANNOTATION(acquire_capability()) { lock_.lock(); }

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
