// ExecutorMemoryUse: what executors take of each device beside what functions were promised: their
// contexts, and what cuBLAS works in. A value of ExecutorHost, on the loop thread.
#pragma once

#include <functional>
#include <map>

#include "node/worker/backend.h"
#include "node/worker/executor_supervisor.h"
#include "node/worker/kernel_instances.h"

namespace lambent::worker {

class ExecutorMemoryUse {
 public:
  // All outlive it. `accounting` may be null: then functions leave room for all that is taken.
  ExecutorMemoryUse(ExecutorSupervisor& supervisor, const KernelInstances& instances,
                    ExecutorMemory* accounting, const ExecutorSetting& setting);

  // ExecutorMemory::executors_take() reports it when it changes.
  Bytes taken(DeviceId device) const;
  // The same once those have left that nothing uses.
  Bytes taken_by_used(DeviceId device) const;
  // A function waits for memory that they take: those there that nothing uses end.
  void evict_unused(DeviceId device);

  // Whether functions leave room for so many contexts there, this executor's among them.
  bool has_room(const ExecutorKey& key, size_t contexts) const;
  // The number of contexts there has changed.
  void contexts_changed(DeviceId device);
  // An instance has come or gone.
  void instances_changed(DeviceId device);

 private:
  Bytes taken_by(DeviceId device, size_t contexts,
                 const std::function<bool(const ExecutorKey&)>& is_there) const;

  ExecutorSupervisor& supervisor_;
  const KernelInstances& instances_;
  ExecutorMemory* const accounting_;
  const Bytes context_memory_;
  const bool calls_cublas_;
  std::map<DeviceId, Bytes> reported_;
};

}  // namespace lambent::worker
