#include "gpu/forward_server/functions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "gpu/forward_server/testing/parts_testing.h"

namespace lambent::forward_server {
namespace {

constexpr uint64_t kOne = 1 | uint64_t{1} << 32;  // a grid or a block of one

class FunctionsTest : public PartsTest {
 protected:
  // One block of one thread.
  void launch(uint64_t function, uint64_t stream, const std::string& parameters) {
    EXPECT_TRUE(send(functions_, kLaunch, {function, stream, kOne, kOne, kOne, 0, 0}, parameters));
  }
  static std::string bytes_of(uint64_t value) {
    return {reinterpret_cast<const char*>(&value), sizeof(value)};
  }
};

TEST_F(FunctionsTest, AKernelRunsOnItsStreamWithItsParameters) {
  const uint64_t count = find_kernel(load_kernels(), "count"), blocks = allocate(512);
  launch(count, stream_, bytes_of(blocks));
  launch(count, stream_, bytes_of(blocks));
  EXPECT_EQ(wait_for_stream(stream_), CUDA_SUCCESS);
  EXPECT_EQ(first_byte(blocks), 2);
}

TEST_F(FunctionsTest, ALaunchWithOtherThanAllParametersIsRefused) {
  const uint64_t count = find_kernel(load_kernels(), "count");
  launch(count, stream_, "short");
  EXPECT_EQ(wait_for_stream(stream_), CUDA_ERROR_INVALID_VALUE);
  launch(count, stream_, bytes_of(0) + "long");
  EXPECT_EQ(wait_for_stream(stream_), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(FunctionsTest, ALaunchNeedsAFunctionAndAStream) {
  const uint64_t count = find_kernel(load_kernels(), "count");
  launch(count + 16, stream_, bytes_of(0));
  EXPECT_EQ(wait_for_stream(stream_), CUDA_ERROR_INVALID_HANDLE);
  launch(count, stream_ + 16, bytes_of(0));
  EXPECT_EQ(wait_for_stream(stream_), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(FunctionsTest, TheNameAndThePlacesOfTheParametersAreInTheChunk) {
  const uint64_t add = find_kernel(load_kernels(), "add");
  EXPECT_TRUE(ask(functions_, kFunctionName, {add, 1}));
  ASSERT_EQ(result(), CUDA_SUCCESS);
  EXPECT_EQ(std::string(pages_.chunk_bytes[1], value(0)), "add");
  EXPECT_TRUE(ask(functions_, kFunctionParameters, {add, 2}));
  ASSERT_EQ(result(), CUDA_SUCCESS);
  ASSERT_EQ(value(0), 4U);
  forward_ring::ParameterPlace last;
  std::memcpy(&last, pages_.chunk_bytes[2] + 3 * sizeof(last), sizeof(last));
  EXPECT_EQ(last.offset, 24U);
  EXPECT_EQ(last.bytes, 4U);
}

TEST_F(FunctionsTest, TheDriverAnswersWhatIsAskedAboutAFunction) {
  const uint64_t count = find_kernel(load_kernels(), "count");
  EXPECT_TRUE(
      ask(functions_, kFunctionAttribute, {count, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK}));
  EXPECT_EQ(result(), CUDA_SUCCESS);
  EXPECT_GT(value(0), 0U);
  EXPECT_TRUE(ask(functions_, kSetFunctionAttribute,
                  {count, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024}));
  EXPECT_EQ(result(), CUDA_SUCCESS);
  EXPECT_TRUE(ask(functions_, kFunctionAttribute,
                  {count, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES}));
  EXPECT_EQ(value(0), 1024U);
  EXPECT_TRUE(ask(functions_, kOccupancy, {count, 32, 0, 0}));
  EXPECT_EQ(result(), CUDA_SUCCESS);
  EXPECT_GT(value(0), 0U);
  EXPECT_TRUE(ask(functions_, kOccupancySharedMemory, {count, 1, 32}));
  EXPECT_EQ(result(), CUDA_SUCCESS);
  EXPECT_GT(value(0), 0U);
  for (const CallCode code : {kFunctionAttribute, kSetFunctionAttribute, kSetCacheConfig,
                              kOccupancy, kOccupancySharedMemory}) {
    EXPECT_TRUE(ask(functions_, code, {count + 16}));
    EXPECT_EQ(result(), CUDA_ERROR_INVALID_HANDLE);
  }
}

TEST_F(FunctionsTest, AFunctionThatIsErasedIsForgotten) {
  const uint64_t count = find_kernel(load_kernels(), "count");
  EXPECT_NE(functions_.find(count), nullptr);
  functions_.erase(count);
  EXPECT_EQ(functions_.find(count), nullptr);
  EXPECT_TRUE(has_all_host_memory());
  functions_.erase(count);  // nothing happens
  EXPECT_TRUE(has_all_host_memory());
}

}  // namespace
}  // namespace lambent::forward_server
