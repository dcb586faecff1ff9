// ExecutorKeeper: keeps executors ready for the functions that use them, on every device that
// serves, and ends unused ones where functions wait for their memory. Used by the parts of Worker
// on the loop thread.
#pragma once

#include "decide/dispatch/dispatcher.h"
#include "node/worker/device_care.h"
#include "node/worker/executor_host.h"
#include "node/worker/function_registry.h"

namespace lambent::worker {

class ExecutorKeeper {
 public:
  // All outlive it; the constructor uses none.
  ExecutorKeeper(const FunctionRegistry& functions, const dispatch::Dispatcher& dispatcher,
                 const DeviceCare& care, ExecutorHost& executors)
      : functions_(functions), dispatcher_(dispatcher), care_(care), executors_(executors) {}

  // So that the first request of this function finds an executor.
  void keep(const FunctionSpec& spec);
  // For all functions, after a device came back.
  void keep_all();
  // The function is gone, or was changed from this. Executors stay that another function of the
  // tenant uses.
  void drop(const FunctionSpec& spec);
  // Functions that would fit a device, and none beside the memory that executors take, wait for
  // these to end: on the device with the most memory then, those end that nothing uses. They come
  // back with the next request for them.
  void evict_unused();

 private:
  const FunctionRegistry& functions_;
  const dispatch::Dispatcher& dispatcher_;
  const DeviceCare& care_;
  ExecutorHost& executors_;
};

}  // namespace lambent::worker
