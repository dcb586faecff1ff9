#include "emulator/emulated_cuda/memory_users.h"

#include "emulator/emulated_cuda/process.h"

namespace lambent::emulated_cuda {

void synchronize_users(Process& process, uintptr_t address) {
  const auto allocation = process.memory.find(address, 1);
  if (!allocation) return;
  const bool is_of_all = !allocation->on_device() || allocation->kind == MemoryKind::kManaged;
  for (const auto& context : process.contexts.all()) {
    const bool may_use = is_of_all || context->device == allocation->device ||
                         process.peers.opened(context->device, allocation->device);
    if (may_use) synchronize(*context);
  }
}

}  // namespace lambent::emulated_cuda
