// StateLock: held while what the library knows of its own handles is read or changed (state.h). Any
// thread.
#pragma once

#include "core/base/plain_mutex.h"

namespace lambent::forward_client {

extern PlainMutex state_mutex;

// The first one, and the first after a fork, makes the State.
class IS_LOCK StateLock {
 public:
  StateLock() ACQUIRE(state_mutex);
  ~StateLock() RELEASE();
  StateLock(const StateLock&) = delete;
  StateLock& operator=(const StateLock&) = delete;
};

}  // namespace lambent::forward_client
