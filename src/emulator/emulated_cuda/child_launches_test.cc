#include "emulator/emulated_cuda/child_launches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace lambent::emulated_cuda {
namespace {

const uint32_t kSize[] = {8}, kAlignment[] = {8};

// A kernel of one pointer, whose blocks are run one after the other by run_here.
emulated_kernel kernel_of(decltype(emulated_kernel::run_block) run_block) {
  return {EMULATED_KERNEL_ABI_LAUNCHES, 0, 1, kSize, kAlignment, 0, 1024, 16, run_block, nullptr};
}

CUresult run_here(const emulated_kernel& kernel, const emulated_launch& launch, void** parameters) {
  for (uint32_t i = 0; i < launch.grid.x; i++) kernel.run_block(&launch, {i, 0, 0}, parameters);
  return CUDA_SUCCESS;
}

struct Record {
  const emulated_kernel* child;
  std::vector<emulated_launch> shapes;
  std::vector<int> results;
  unsigned runs = 0;
};
Record& record_of(void** parameters) { return **static_cast<Record**>(parameters[0]); }

void count_run(const emulated_launch*, emulated_dim3, void** parameters) {
  record_of(parameters).runs++;
}

// Launches all shapes of the record.
void launch_all(const emulated_launch* launch, emulated_dim3, void** parameters) {
  Record& record = record_of(parameters);
  for (const emulated_launch& shape : record.shapes) {
    record.results.push_back(launch->launch_child(launch, record.child, &shape, parameters, 0));
  }
}

emulated_launch shape(emulated_dim3 grid, emulated_dim3 block, uint32_t shared_bytes = 0) {
  emulated_launch shape{};
  shape.grid = grid;
  shape.block = block;
  shape.dynamic_shared_bytes = shared_bytes;
  return shape;
}

void launch_from_host(const emulated_kernel& kernel, Record* record) {
  void* parameters[] = {&record, nullptr};
  EXPECT_EQ(run_with_children(kernel, shape({1, 1, 1}, {1, 1, 1}), parameters, run_here, run_here),
            CUDA_SUCCESS);
}

TEST(ChildLaunches, ShapesAreCheckedAsThoseOfTheHost) {
  const emulated_kernel parent = kernel_of(launch_all), child = kernel_of(count_run);
  Record record{&child,
                {shape({1, 65536, 1}, {1, 1, 1}), shape({1, 1, 65536}, {1, 1, 1}),
                 shape({0x80000000, 1, 1}, {1, 1, 1}), shape({1, 1, 1}, {1, 1, 65}),
                 shape({1, 1, 1}, {1025, 1, 1}), shape({1, 1, 1}, {0, 1, 1}),
                 shape({1, 1, 1}, {1, 1, 1}, UINT32_MAX)},
                {}};
  launch_from_host(parent, &record);
  EXPECT_EQ(record.results, std::vector<int>(7, CUDA_ERROR_INVALID_VALUE));
  EXPECT_EQ(record.runs, 0u);
}

TEST(ChildLaunches, WhatWaitsIsBoundedForAllOfALaunch) {
  const emulated_kernel child = kernel_of(count_run);
  Record leaves{&child, {kMostWaiting / 2, shape({1, 1, 1}, {1, 1, 1})}, {}};
  const emulated_kernel parent = kernel_of(launch_all);
  launch_from_host(parent, &leaves);
  EXPECT_EQ(leaves.runs, kMostWaiting / 2);
  // The bound is that of the family: each of two blocks has more than the half of it.
  leaves = {&child, {kMostWaiting / 2 + 10, shape({1, 1, 1}, {1, 1, 1})}, {}};
  Record* both = &leaves;
  void* parameters[] = {&both, nullptr};
  EXPECT_EQ(run_with_children(parent, shape({2, 1, 1}, {1, 1, 1}), parameters, run_here, run_here),
            CUDA_SUCCESS);
  EXPECT_EQ(leaves.runs, kMostWaiting);
  EXPECT_EQ(
      std::count(leaves.results.begin(), leaves.results.end(), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES),
      20);
}

// Each generation launches another, far more of them than may wait at a time.
void launch_tail(const emulated_launch* launch, emulated_dim3, void** parameters) {
  Record& record = record_of(parameters);
  if (++record.runs >= 2 * kMostWaiting) return;
  const emulated_launch next = shape({1, 1, 1}, {1, 1, 1});
  record.results = {launch->launch_child(launch, record.child, &next, parameters, 1)};
}

TEST(ChildLaunches, WhatHasRunMakesRoom) {
  const emulated_kernel self = kernel_of(launch_tail);
  Record record{&self, {}, {}};
  launch_from_host(self, &record);
  EXPECT_EQ(record.runs, 2 * kMostWaiting);
  EXPECT_EQ(record.results, std::vector<int>{CUDA_SUCCESS});
}

}  // namespace
}  // namespace lambent::emulated_cuda
