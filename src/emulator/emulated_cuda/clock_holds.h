// Holds on the node's clock. A stream's thread that may start something at a certain virtual
// instant keeps the models of contention from going past it until it has done so; thus what follows
// an end begins exactly there, however late the thread woke up.
//
// The rules: a thread holds the clock from the end of one operation until the next one is in the
// model or there is none; it releases it while it waits for another stream, the host or memory.
// What completes something holds it for the streams that wait for that, before they wake.
#pragma once

#include <cstdint>
#include <map>

#include "core/base/mutex.h"
#include "emulator/emulated_node/node.h"

namespace lambent::emulated_cuda {

// The holds of a process; the earliest is published to the node. Any thread.
class ClockHolds {
 public:
  explicit ClockHolds(emulated_node::Node& node) : node_(node) {}

  void add(int64_t at_ns, int count = 1);
  void move(int64_t from_ns, int64_t to_ns);
  void remove(int64_t at_ns);

 private:
  void publish() REQUIRES(mutex_);

  emulated_node::Node& node_;
  Mutex mutex_;
  std::map<int64_t, int> counts_ GUARDED_BY(mutex_);  // by instant
  int64_t published_ns_ GUARDED_BY(mutex_) = 0;
};

// The hold of the calling thread, if it is a stream's; elsewhere these do nothing. For those who
// perform operations.
class ThreadClock {
 public:
  // From now on this thread's holds are kept in `holds`.
  static void begin(ClockHolds* holds);
  // Takes over a hold that another thread added for this one.
  static void adopt(int64_t at_ns);
  static void hold(int64_t at_ns);
  static void release();
};

}  // namespace lambent::emulated_cuda
