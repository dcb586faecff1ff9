// Host functions run here, on a thread of their own, when the executor says that they are due:
// those that a stream has come to, and what a graph has to run in this process.
#pragma once

namespace lambent::forward_client {

// Starts the thread, if that was not done. Under the StateLock; false if there is none.
bool start_host_calls();

}  // namespace lambent::forward_client
