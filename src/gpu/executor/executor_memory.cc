// The size of the executor's pool between requests: instances' own buffers stay where they are as
// long as their instance is in use, and their memory goes to the device afterwards.
#include <algorithm>
#include <utility>

#include "gpu/executor/executor.h"

namespace lambent::executor {
namespace {

// Looks at the memory while it is held. Growing waits for none of them, so there need not be more.
constexpr uint64_t kLooks = 4;

}  // namespace

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
    const auto block = pool_->take(size, 0);  // nobody's: the instance has not written there yet
    if (block.ok()) instance.reserved.push_back(block->address);
  };
  if (loaded.plan.temporaries > Bytes(0) && !has_layers(instance)) {
    reserve(DeviceName::kTemporaries, loaded.plan.temporaries);
  }
  for (const uint32_t i : loaded.codec.outputs()) reserve(i, loaded.plan.sizes[i]);
  for (const uint32_t i : loaded.codec.inputs()) reserve(i, loaded.plan.sizes[i]);
}

void Executor::use_reserved(Instance& instance) {
  for (const CUdeviceptr address : std::exchange(instance.reserved, {})) pool_->give_back(address);
}

// Nothing is done while there is nothing to give to the device, or while one look is to come.
void Executor::watch_memory() {
  if (watches_memory_ || rule() != scheduling::PoolRule::kResilient) return;
  watches_memory_ = true;
  loop_.call_after(std::max<Duration>(options_.pool_hold / kLooks, milliseconds(1)), [this] {
    watches_memory_ = false;
    if (!ended_) look_at_memory();
  });
}

// An instance needs its buffers until it has had no request for the hold: what runs in it is one
// CUDA graph, mostly, and so its profile has one step, for which all of them must be there.
void Executor::look_at_memory() {
  if (gives_memory_) return watch_memory();  // what is mapped is yet to change
  const Instant now = loop_.now();
  const auto is_idle = [&](SandboxId id) {
    const Instance* instance = find(id);
    if (instance == nullptr) return true;
    return instance->request == nullptr && now - instance->last_request >= options_.pool_hold;
  };
  std::unordered_map<SandboxId, MemoryProfile> profiles;
  Bytes others, pinned;
  bool has_buffers = false;
  store_->for_each([&](const DeviceName& name, const DeviceStore::Entry& entry) {
    if (name.kind != DeviceName::Kind::kInstanceBuffer) {
      others += entry.size;
      return;
    }
    has_buffers = true;
    if (entry.pins > 0) pinned += entry.size;
    const SandboxId instance(name.high);
    if (is_idle(instance)) return;
    MemoryProfile& profile = profiles[instance];
    profile.kernels.resize(1, {.duration = options_.pool_hold, .live = Bytes()});
    profile.kernels[0].live += entry.size;
    profile.whole += entry.size;
  });
  std::vector<scheduling::RunningFunction> running;
  for (const auto& [instance, profile] : profiles) running.push_back({.profile = &profile});

  scheduling::PoolOptions pool;
  pool.rule = rule();
  pool.interval = options_.pool_hold;
  const auto step = scheduling::scale_pool(pool, pool_->mapped() - others, pinned, running);
  const uint64_t looks = options_.pool_hold > Duration(0) ? kLooks : 0;
  auto leaving = store_->trim(step.shrink, looks, is_idle);
  if (has_buffers || pool_->has_free()) watch_memory();
  if (leaving.empty()) return;
  gives_memory_ = true;
  // Not here: unmapping may wait for what runs on the device.
  gives_->run([this, leaving] { pool_->unmap(leaving); },
              [this, leaving] {
                gives_memory_ = false;
                pool_->forget(leaving);
                if (!ended_ && layers_ != nullptr) layers_->room_came();
              });
}

}  // namespace lambent::executor
