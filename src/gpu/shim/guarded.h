// Guarded: a value that is reached only with its mutex held. For the preloaded libraries, on any
// thread.
#pragma once

#include <pthread.h>

#include "gpu/shim/locked.h"

namespace lambent::shim {

template <typename Value>
class Guarded {
 public:
  Guarded() { pthread_mutex_init(&mutex_, nullptr); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  // Holds the mutex while it lives.
  class Held {
   public:
    explicit Held(Guarded& guarded) : lock_(guarded.mutex_), value_(guarded.value_) {}
    Value* operator->() { return &value_; }
    Value& operator*() { return value_; }

   private:
    Locked lock_;
    Value& value_;
  };
  Held hold() { return Held(*this); }
  // For a time in which no other thread can reach the value.
  Value& unguarded() { return value_; }

 private:
  pthread_mutex_t mutex_;
  Value value_;
};

}  // namespace lambent::shim
