#include "node/worker/executor_memory_use.h"

#include <utility>

namespace lambent::worker {

ExecutorMemoryUse::ExecutorMemoryUse(ExecutorSupervisor& supervisor,
                                     const KernelInstances& instances, ExecutorMemory* accounting,
                                     const ExecutorSetting& setting)
    : supervisor_(supervisor),
      instances_(instances),
      accounting_(accounting),
      context_memory_(setting.context_memory),
      calls_cublas_(!setting.cublas.empty()) {}

Bytes ExecutorMemoryUse::taken(DeviceId device) const {
  return taken_by(device, supervisor_.contexts_on(device), [](const auto&) { return true; });
}

Bytes ExecutorMemoryUse::taken_by_used(DeviceId device) const {
  return taken_by(device, supervisor_.used_contexts_on(device), [](const auto&) { return true; });
}

Bytes ExecutorMemoryUse::taken_by(DeviceId device, size_t contexts,
                                  const std::function<bool(const ExecutorKey&)>& is_there) const {
  Bytes taken = context_memory_ * contexts;
  if (!calls_cublas_) return taken;
  for (const auto& [id, instance] : instances_.all()) {
    if (instance->key.device == device && is_there(instance->key)) taken += kCallWorkspace;
  }
  return taken;
}

void ExecutorMemoryUse::evict_unused(DeviceId device) {
  supervisor_.retire_unused(device, "a function waits for the memory that it takes");
}

bool ExecutorMemoryUse::has_room(const ExecutorKey& key, size_t contexts) const {
  const auto is_there = [&](const ExecutorKey& each) {
    return each == key || supervisor_.launched(each);
  };
  return accounting_ == nullptr ||
         accounting_->has_room(key.device, taken_by(key.device, contexts, is_there));
}

void ExecutorMemoryUse::contexts_changed(DeviceId device) {
  const Bytes bytes = taken(device);
  if (std::exchange(reported_[device], bytes) == bytes) return;
  if (accounting_ != nullptr) accounting_->executors_take(device, bytes);
}

void ExecutorMemoryUse::instances_changed(DeviceId device) {
  if (calls_cublas_) contexts_changed(device);
}

}  // namespace lambent::worker
