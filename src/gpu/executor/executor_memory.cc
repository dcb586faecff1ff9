// The size of the executor's pool between requests: instances' own buffers stay where they are as
// long as their instance is in use, and their memory goes to the device afterwards.
#include <utility>

#include "gpu/executor/executor.h"

namespace lambent::executor {

scheduling::PoolRule Executor::rule() const {
  switch (options_.pool) {
    case ExecutorPool::kResilient:
    case ExecutorPool::kLayered:
      break;
    case ExecutorPool::kFineGrained:
    case ExecutorPool::kLayeredFineGrained:
      return scheduling::PoolRule::kFineGrained;
    case ExecutorPool::kStatic:
      return scheduling::PoolRule::kStatic;
  }
  return scheduling::PoolRule::kResilient;
}

// A static pool has room for all of an instance's buffers before its first request. Whatever is
// missing here, a request asks for again, and gets the error.
void Executor::grow_ahead(Instance& instance) {
  if (rule() != scheduling::PoolRule::kStatic) return;
  const LoadedInstance& loaded = *instance.loaded;
  const auto reserve = [&](uint32_t buffer, Bytes size) {
    if (store_->find(DeviceName::of(instance.id, buffer)) != nullptr) return;
    instance.reserved->add(size);
  };
  if (loaded.plan.temporaries > Bytes(0) && !has_layers(instance)) {
    reserve(DeviceName::kTemporaries, loaded.plan.temporaries);
  }
  for (const uint32_t i : loaded.codec.outputs()) reserve(i, loaded.plan.sizes[i]);
  for (const uint32_t i : loaded.codec.inputs()) reserve(i, loaded.plan.sizes[i]);
}

// Whether it has had no request for the hold.
bool Executor::is_idle(SandboxId id) {
  const Instance* instance = find(id);
  if (instance == nullptr) return true;
  return instance->request == nullptr && loop_.now() - instance->last_request >= options_.pool_hold;
}

}  // namespace lambent::executor
