// A host module, written by hand, of kernels that reach memory by their parameters and by addresses
// that lie in memory; for working_set_probe. One thread each.
#include "gpu/cuda_abi/emulated_kernel.h"

namespace {

void add_one(uint32_t* words, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) words[i] += 1;
}

void increment(const emulated_launch*, emulated_dim3, void** parameters) {
  add_one(*static_cast<uint32_t**>(parameters[0]), *static_cast<uint64_t*>(parameters[1]));
}

// The address stands in a structure that is passed by value.
struct Wrapped {
  uint64_t count;
  uint32_t* words;
};
void increment_wrapped(const emulated_launch*, emulated_dim3, void** parameters) {
  const Wrapped& wrapped = *static_cast<Wrapped*>(parameters[0]);
  add_one(wrapped.words, wrapped.count);
}

// The address stands in a table on the device.
void increment_through(const emulated_launch*, emulated_dim3, void** parameters) {
  uint32_t** table = *static_cast<uint32_t***>(parameters[0]);
  add_one(table[*static_cast<uint64_t*>(parameters[1])], *static_cast<uint64_t*>(parameters[2]));
}

// Writes an address into such a table.
void store_address(const emulated_launch*, emulated_dim3, void** parameters) {
  uint32_t** table = *static_cast<uint32_t***>(parameters[0]);
  table[*static_cast<uint64_t*>(parameters[1])] = *static_cast<uint32_t**>(parameters[2]);
}

const uint32_t kEights[] = {8, 8, 8};
const uint32_t kWrapped[] = {sizeof(Wrapped)};

}  // namespace

#define KERNEL(name, count, sizes)                                                                \
  extern "C" __attribute__((visibility("default"))) const emulated_kernel emulated_kernel_##name{ \
      EMULATED_KERNEL_ABI_VERSION, 0, count, sizes, kEights, 0, 1024, 16, name, nullptr};
KERNEL(increment, 2, kEights)
KERNEL(increment_wrapped, 1, kWrapped)
KERNEL(increment_through, 3, kEights)
KERNEL(store_address, 3, kEights)
