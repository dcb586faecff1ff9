// LeaseMaker: makes host memory for leases on a thread of its own, for the kernel takes a quarter
// of a second to zero a GiB. make() is called on the loop thread, its answer comes there too.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "core/base/fd.h"
#include "core/base/mutex.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "core/loop/event_loop.h"

namespace lambent::monitor {

class LeaseMaker {
 public:
  using Answer = std::function<void(Result<OwnedFd>)>;

  // Sparse: pages come into being when they are written, and count for the writer.
  LeaseMaker(loop::EventLoop& loop, bool sparse);
  // Finishes the one under way; answers that were not given yet never come.
  ~LeaseMaker();
  LeaseMaker(const LeaseMaker&) = delete;
  LeaseMaker& operator=(const LeaseMaker&) = delete;

  // A file of `bytes`; unless sparse, all of its pages are there, zeroed, and count for this
  // process. RESOURCE_EXHAUSTED if the host has no room.
  void make(Bytes bytes, Answer answer);

 private:
  struct Order {
    Bytes bytes;
    Answer answer;
  };
  void serve();

  loop::EventLoop& loop_;
  const bool sparse_;
  Mutex mutex_;
  Condition wake_;
  std::deque<Order> orders_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  // Answers under way when this goes find it empty.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::thread thread_;
};

}  // namespace lambent::monitor
