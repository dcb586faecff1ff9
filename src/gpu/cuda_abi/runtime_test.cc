#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "gpu/cuda_abi/runtime_types.h"

std::vector<long long> toolkit_runtime_facts();

namespace {

struct Fact {
  const char* expression;
  long long value;
};

std::vector<Fact> our_facts() {
  std::vector<Fact> facts;
#define FACT(expression) facts.push_back({#expression, static_cast<long long>(expression)});
#include "gpu/cuda_abi/runtime_facts.inc"
#undef FACT
  return facts;
}

TEST(RuntimeAbi, OurDeclarationsAgreeWithTheToolkit) {
  auto theirs = toolkit_runtime_facts();
  if (theirs.empty()) GTEST_SKIP() << "no CUDA 13.0 toolkit on this machine";
  auto ours = our_facts();
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); i++)
    EXPECT_EQ(ours[i].value, theirs[i]) << ours[i].expression;
}

// The runtime stand-in hands codes of the driver through as they are.
TEST(RuntimeAbi, CodesThatTheDriverHasTooHaveTheSameValues) {
  EXPECT_EQ(static_cast<int>(cudaErrorMemoryAllocation), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(static_cast<int>(cudaErrorInvalidResourceHandle), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(static_cast<int>(cudaErrorNoKernelImageForDevice), CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(static_cast<int>(cudaErrorIllegalAddress), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(static_cast<int>(cudaErrorNotReady), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(static_cast<int>(cudaErrorNotSupported), CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace
