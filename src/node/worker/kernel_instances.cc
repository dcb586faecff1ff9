#include "node/worker/kernel_instances.h"

#include <algorithm>
#include <utility>

namespace lambent::worker {

Bytes KernelInstance::needed_memory(bool has_queue) const {
  if (!ready) return spec.gpu.memory;
  if (!current && !has_queue) return constants;
  if (device_memory_peak == Bytes(0)) return spec.gpu.memory;
  return std::max(device_memory_peak, constants);
}

KernelInstance& KernelInstances::add(SandboxId id, BackendObserver& observer) {
  auto owned = std::make_unique<KernelInstance>(observer);
  owned->id = id;
  return *(instances_[id] = std::move(owned));
}

std::unique_ptr<KernelInstance> KernelInstances::remove(SandboxId id, bool is_cleared) {
  const auto found = instances_.find(id);
  std::unique_ptr<KernelInstance> instance = std::move(found->second);
  instances_.erase(found);
  if (instance->current) {
    given_.erase(*instance->current);
    if (is_cleared) suspects_.erase(*instance->current);
  }
  return instance;
}

KernelInstance* KernelInstances::find(SandboxId id) const {
  const auto found = instances_.find(id);
  return found != instances_.end() ? found->second.get() : nullptr;
}

KernelInstance* KernelInstances::find(const ExecutorKey& key, SandboxId id) const {
  KernelInstance* instance = find(id);
  return instance != nullptr && instance->key == key ? instance : nullptr;
}

KernelInstance* KernelInstances::given(const ExecutorKey& key, InvocationId invocation) const {
  const auto found = given_.find(invocation);
  return found != given_.end() ? find(key, found->second) : nullptr;
}

std::vector<SandboxId> KernelInstances::ids_of(const ExecutorKey& key) const {
  std::vector<SandboxId> ids;
  for (const auto& [id, instance] : instances_) {
    if (instance->key == key) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

KernelInstance* KernelInstances::only_busy(const ExecutorKey& key) const {
  KernelInstance* busy = nullptr;
  for (const auto& [id, instance] : instances_) {
    if (instance->key != key || !instance->current) continue;
    if (busy != nullptr) return nullptr;
    busy = instance.get();
  }
  return busy;
}

void KernelInstances::give(KernelInstance& instance, InvocationId invocation) {
  instance.current = invocation;
  given_[invocation] = instance.id;
}

void KernelInstances::answered(KernelInstance& instance) {
  given_.erase(*instance.current);
  suspects_.erase(*instance.current);
  instance.current.reset();
  instance.request.reset();
  ++instance.invocations;
}

void KernelInstances::suspect(const ExecutorKey& key) {
  for (const auto& [id, instance] : instances_) {
    if (instance->key == key && instance->runs() && !instance->end_words) {
      suspects_.insert(*instance->current);
    }
  }
}

std::vector<KernelInstance*> KernelInstances::sendable(const ExecutorKey& key) const {
  size_t running = 0;
  bool suspect_runs = false;
  std::vector<KernelInstance*> waiting;
  for (const auto& [id, instance] : instances_) {
    if (instance->key != key || !instance->current) continue;
    if (instance->runs()) {
      ++running;
      suspect_runs = suspect_runs || is_suspect(*instance);
    } else if (instance->is_sendable()) {
      waiting.push_back(instance.get());
    }
  }
  // Suspects first, because they wait until nothing runs.
  std::sort(waiting.begin(), waiting.end(), [this](const auto* a, const auto* b) {
    return std::pair(!is_suspect(*a), a->id) < std::pair(!is_suspect(*b), b->id);
  });
  std::vector<KernelInstance*> sent;
  for (KernelInstance* instance : waiting) {
    if (suspect_runs || (is_suspect(*instance) && running > 0)) break;
    suspect_runs = is_suspect(*instance);
    ++running;
    sent.push_back(instance);
  }
  return sent;
}

}  // namespace lambent::worker
