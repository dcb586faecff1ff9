// Locked: holds a pthread mutex for a scope. For the preloaded libraries, on any thread.
#pragma once

#include <pthread.h>

namespace lambent::shim {

class Locked {
 public:
  explicit Locked(pthread_mutex_t& mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~Locked() { pthread_mutex_unlock(&mutex_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

}  // namespace lambent::shim
