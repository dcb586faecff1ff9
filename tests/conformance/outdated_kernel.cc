// A host module written by hand: a kernel of an ABI that the driver does not know, and cooperative
// ones.
#include "gpu/cuda_abi/emulated_kernel.h"

extern "C" __attribute__((visibility("default")))
const emulated_kernel emulated_kernel_outdated{EMULATED_KERNEL_ABI_LAUNCHES + 1,
                                               0,
                                               0,
                                               nullptr,
                                               nullptr,
                                               0,
                                               1024,
                                               16,
                                               [](const emulated_launch*, emulated_dim3, void**) {},
                                               nullptr};

namespace {

// Counts the blocks that have come, waits for all, and notes how many each one saw.
void meet_block(const emulated_launch* launch, emulated_dim3 block, void** parameters) {
  auto* arrived = *static_cast<uint32_t**>(parameters[0]);
  auto* seen = *static_cast<uint32_t**>(parameters[1]);
  for (uint32_t round = 1; round <= 3; round++) {
    __atomic_fetch_add(arrived, 1, __ATOMIC_RELAXED);
    launch->wait_for_grid(launch->grid_barrier);
    seen[block.x] = __atomic_load_n(arrived, __ATOMIC_RELAXED);
    launch->wait_for_grid(launch->grid_barrier);
  }
}

// The last block faults while the others wait for it.
void break_block(const emulated_launch* launch, emulated_dim3 block, void**) {
  if (block.x + 1 == launch->grid.x) *static_cast<volatile int*>(nullptr) = 1;
  launch->wait_for_grid(launch->grid_barrier);
}

// Calls the host's function that it is given, as code of a kernel does that calls the driver.
void call_block(const emulated_launch*, emulated_dim3, void** parameters) {
  const auto function = *static_cast<int (**)(void*)>(parameters[0]);
  int* result = *static_cast<int**>(parameters[1]);
  __atomic_store_n(result, function(result), __ATOMIC_RELAXED);
}

const uint32_t kTwoPointers[] = {8, 8};

}  // namespace

extern "C" __attribute__((visibility("default")))
const emulated_kernel emulated_kernel_meet{EMULATED_KERNEL_ABI_VERSION,
                                           0,
                                           2,
                                           kTwoPointers,
                                           kTwoPointers,
                                           0,
                                           1024,
                                           16,
                                           meet_block,
                                           nullptr};
extern "C" __attribute__((visibility("default")))
const emulated_kernel emulated_kernel_break_meeting{
    EMULATED_KERNEL_ABI_VERSION, 0, 0, nullptr, nullptr, 0, 1024, 16, break_block, nullptr};
extern "C" __attribute__((visibility("default")))
const emulated_kernel emulated_kernel_call{EMULATED_KERNEL_ABI_LAUNCHES,
                                           0,
                                           2,
                                           kTwoPointers,
                                           kTwoPointers,
                                           0,
                                           1024,
                                           16,
                                           call_block,
                                           nullptr};
