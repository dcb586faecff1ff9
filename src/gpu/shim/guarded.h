// Guarded: a value that is reached only with its mutex held. For the preloaded libraries, on any
// thread.
#pragma once

#include "core/base/plain_mutex.h"

namespace lambent::shim {

template <typename Value>
class Guarded {
 public:
  Guarded() = default;
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  // Holds the mutex while it lives. The only way to the value, so that clang has nothing to prove
  // outside; it cannot follow a lock that a function returns.
  class Held {
   public:
    explicit Held(Guarded& guarded) NO_THREAD_SAFETY_ANALYSIS : mutex_(guarded.mutex_),
                                                                value_(guarded.value_) {
      mutex_.lock();
    }
    ~Held() NO_THREAD_SAFETY_ANALYSIS { mutex_.unlock(); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    Value* operator->() { return &value_; }
    Value& operator*() { return value_; }

   private:
    PlainMutex& mutex_;
    Value& value_;
  };
  Held hold() { return Held(*this); }
  // For a time in which no other thread can reach the value.
  Value& unguarded() NO_THREAD_SAFETY_ANALYSIS { return value_; }

 private:
  PlainMutex mutex_;
  Value value_ GUARDED_BY(mutex_);
};

}  // namespace lambent::shim
