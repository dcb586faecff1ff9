// Host functions run here, on a thread of their own, when the executor says that they are due:
// those that a stream has come to, and what a graph has to run in this process.
#pragma once

#include "gpu/forward_client/state_lock.h"

namespace lambent::forward_client {

// Starts the thread, if that was not done. Under the StateLock; false if there is none.
bool start_host_calls() REQUIRES(state_mutex);

}  // namespace lambent::forward_client
