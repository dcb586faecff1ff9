// The test kernels as a host module, written by hand against emulated_kernel.h.
#include <chrono>
#include <cstdint>
#include <thread>

#include "cuda_abi/emulated_kernel.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Launch = emulated_launch;

template <class T>
T argument(void** parameters, int index) {
  return *static_cast<T*>(parameters[index]);
}

void add_block(const Launch* launch, emulated_dim3 block, void** parameters) {
  auto* a = argument<const float*>(parameters, 0);
  auto* b = argument<const float*>(parameters, 1);
  auto* c = argument<float*>(parameters, 2);
  int n = argument<int>(parameters, 3);
  for (uint32_t thread = 0; thread < launch->block.x; thread++) {
    int i = static_cast<int>(block.x * launch->block.x + thread);
    if (i < n) c[i] = a[i] + b[i];
  }
}

void busy_block(const Launch*, emulated_dim3, void**) {}

uint64_t busy_duration(const Launch*, void** parameters) {
  return argument<uint64_t>(parameters, 0);
}

// Counts its blocks, so that a test can see that each ran exactly once.
void count_block(const Launch*, emulated_dim3, void** parameters) {
  __atomic_add_fetch(argument<uint32_t*>(parameters, 0), 1, __ATOMIC_RELAXED);
}

[[noreturn]] void endless_block(const Launch*, emulated_dim3, void**) {
  for (;;) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

const uint32_t kAddSizes[] = {8, 8, 8, 4};
const uint32_t kPointerSize[] = {8};

}  // namespace

EXPORT const emulated_kernel emulated_kernel_add{
    EMULATED_KERNEL_ABI_VERSION, 4, kAddSizes, kAddSizes, 0, 1024, 16, add_block, nullptr};
// busy(uint64 ns): takes that long on the whole device.
EXPORT const emulated_kernel emulated_kernel_busy{EMULATED_KERNEL_ABI_VERSION,
                                                  1,
                                                  kPointerSize,
                                                  kPointerSize,
                                                  0,
                                                  1024,
                                                  16,
                                                  busy_block,
                                                  busy_duration};
EXPORT const emulated_kernel emulated_kernel_count{
    EMULATED_KERNEL_ABI_VERSION, 1, kPointerSize, kPointerSize, 0, 1024, 16, count_block, nullptr};
EXPORT const emulated_kernel emulated_kernel_endless{
    EMULATED_KERNEL_ABI_VERSION, 0, nullptr, nullptr, 0, 1024, 16, endless_block, nullptr};
EXPORT const emulated_kernel emulated_kernel_outdated{
    EMULATED_KERNEL_ABI_VERSION + 1, 0, nullptr, nullptr, 0, 1024, 16, busy_block, nullptr};
EXPORT int counter[4];
int counter[4] = {1, 2, 3, 4};
