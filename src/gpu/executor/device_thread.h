// DeviceThread: a thread that may wait for the device, so that the loop thread never does. Work is
// handed to it on the loop thread, and what follows from it is done there again.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "core/base/mutex.h"
#include "core/loop/event_loop.h"
#include "gpu/cuda/device.h"

namespace lambent::executor {

class DeviceThread {
 public:
  // The context is current on the thread.
  DeviceThread(loop::EventLoop& loop, const cuda::Context& context);
  // Ends the work under way; what was not begun is dropped, and nothing follows any more.
  ~DeviceThread();
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  // Does `work` on the thread, in the order of the calls, then `then` on the loop thread.
  void run(std::function<void()> work, std::function<void()> then);

 private:
  struct Task {
    std::function<void()> work, then;
  };
  void serve(const cuda::Context& context);

  loop::EventLoop& loop_;
  Mutex mutex_;
  Condition wake_;
  std::deque<Task> tasks_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  // What was posted to the loop and finds this false does nothing. Read and written on the loop.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::thread thread_;
};

}  // namespace lambent::executor
