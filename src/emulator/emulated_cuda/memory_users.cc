#include "emulator/emulated_cuda/memory_users.h"

#include "emulator/emulated_cuda/process.h"

namespace lambent::emulated_cuda {

namespace {

// Those devices that the pool of this memory, if it is of one, is opened to.
decltype(Pool::access) access_of(Process& process, uintptr_t address) {
  decltype(Pool::access) all{};
  const CUmemoryPool pool = process.pools.pool_of(address);
  if (pool == nullptr) return all;
  process.pools.use_access(pool, [&all](int, const auto& access) {
    all = access;
    return CUDA_SUCCESS;
  });
  return all;
}

}  // namespace

void synchronize_users(Process& process, Context& current, uintptr_t address) {
  synchronize(current);
  const auto allocation = process.memory.find(address, 1);
  if (!allocation) return;
  const bool is_of_all = !allocation->on_device() || allocation->kind == MemoryKind::kManaged;
  const auto access = access_of(process, address);
  for (const auto& context : process.contexts.all()) {
    const int device = context->device;
    const bool may_use = is_of_all || device == allocation->device ||
                         access[device] == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
                         process.peers.opened(device, allocation->device);
    if (may_use) synchronize(*context);
  }
}

}  // namespace lambent::emulated_cuda
