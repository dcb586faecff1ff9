#include <atomic>
#include <cstring>

#include "conformance/fixture.h"

namespace lambent::conformance {
namespace {

using KernelFaults = WithKernels;
using Cooperation = WithKernels;
using StreamMemory = WithKernels;
using HostCalls = WithKernels;

TEST_F(KernelFaults, AnIllegalAddressBreaksTheContextUntilItIsGone) {
  BODIES_ONLY();
  CUcontext other;
  CUdeviceptr there, word = allocate(4), nowhere = 0;
  CUstream stream;
  CUevent event;
  OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  OK(cu.event_create(&event, 0));
  OK(launch(function("store"), 1, 32, stream, {&word}));
  OK(cu.stream_synchronize(stream));
  OK(launch(function("store"), 1, 32, stream, {&nowhere}));
  std::atomic<int> calls{0};
  auto never = [](void* count) { ++*static_cast<std::atomic<int>*>(count); };
  cu.launch_host_func(stream, never, &calls);
  EXPECT_EQ(cu.stream_synchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cu.ctx_synchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(launch(nullptr, 1, 32, stream, {&word}), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cu.mem_alloc(&there, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cu.event_query(event), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(calls, 0);
  EMULATOR_ONLY("a GPU's whole process may be beyond use");
  OK(cu.ctx_destroy(context));
  context = nullptr;
  OK(cu.ctx_create_v2(&other, 0, 0));
  OK(cu.mem_alloc(&there, 4));
  OK(cu.memset_d32(there, 6, 1));
  uint32_t read = 0;
  OK(cu.memcpy_d_to_h(&read, there, 4));
  EXPECT_EQ(read, 6u);
  OK(cu.ctx_destroy(other));
}

TEST_F(KernelFaults, OneContextDoesNotHarmAnother) {
  BODIES_ONLY();
  EMULATOR_ONLY("a GPU's whole process may be beyond use");
  CUdeviceptr counter = 0, nowhere = 0;
  CUcontext broken;
  CUmodule own;
  CUfunction store;
  std::string why_not;
  std::vector<char> image = kernel_image(&why_not);
  for (int round = 0; round < 3; round++) {
    OK(cu.ctx_create_v2(&broken, 0, 0));
    OK(cu.module_load_data(&own, image.data()));
    OK(cu.module_get_function(&store, own, "store"));
    OK(launch(store, 1, 32, nullptr, {&nowhere}));
    EXPECT_EQ(cu.ctx_synchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cu.ctx_destroy(broken));
  }
  counter = allocate(4);
  OK(cu.memset_d32(counter, 0, 1));
  OK(launch(function("count"), 50, 32, nullptr, {&counter}));
  uint32_t blocks = 0;
  OK(cu.memcpy_d_to_h(&blocks, counter, 4));
  EXPECT_EQ(blocks, 50u);
}

TEST_F(Cooperation, BlocksOfAGridWaitForEachOther) {
  BODIES_ONLY();
  EMULATOR_ONLY("the kernel is a host module");
  CUmodule by_hand;
  CUfunction meet;
  OK(cu.module_load(&by_hand, outdated_module().c_str()));
  OK(cu.module_get_function(&meet, by_hand, "meet"));
  const unsigned blocks = 40;
  CUdeviceptr arrived = allocate(4), seen = allocate(4 * blocks);
  OK(cu.memset_d32(arrived, 0, 1));
  void* parameters[] = {&arrived, &seen};
  OK(cu.launch_cooperative_kernel(meet, blocks, 1, 1, 32, 1, 1, 0, nullptr, parameters));
  uint32_t counts[blocks];
  OK(cu.memcpy_d_to_h(counts, seen, sizeof counts));
  for (uint32_t count : counts) EXPECT_EQ(count, 3 * blocks);
  EXPECT_EQ(cu.launch_cooperative_kernel(meet, 100'000, 1, 1, 32, 1, 1, 0, nullptr, parameters),
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

TEST_F(Cooperation, AFaultFreesThoseWhoWait) {
  BODIES_ONLY();
  EMULATOR_ONLY("the kernel is a host module");
  CUmodule by_hand;
  CUfunction broken;
  OK(cu.module_load(&by_hand, outdated_module().c_str()));
  OK(cu.module_get_function(&broken, by_hand, "break_meeting"));
  OK(cu.launch_cooperative_kernel(broken, 8, 1, 1, 32, 1, 1, 0, nullptr, nullptr));
  EXPECT_EQ(cu.ctx_synchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

CUcontext g_context;

int clear_from_kernel(void* word) {
  driver().ctx_set_current(g_context);
  return driver().memset_d32_async(reinterpret_cast<CUdeviceptr>(word) + 4, 1, 1, nullptr);
}

TEST_F(Cooperation, WhatAKernelCallsOfTheDriverIsRefused) {
  BODIES_ONLY();
  EMULATOR_ONLY("the kernel is a host module");
  CUmodule by_hand;
  CUfunction call;
  OK(cu.module_load(&by_hand, outdated_module().c_str()));
  OK(cu.module_get_function(&call, by_hand, "call"));
  CUdeviceptr word = allocate(8);
  OK(cu.memset_d32(word, 0, 2));
  OK(cu.ctx_get_current(&g_context));
  auto* function = clear_from_kernel;
  void* parameters[] = {&function, &word};
  // More blocks than a stream has room for work: they would wait for themselves.
  OK(cu.launch_kernel(call, 2000, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  uint32_t words[2];
  OK(cu.memcpy_d_to_h(words, word, sizeof words));
  EXPECT_EQ(words[0], static_cast<uint32_t>(CUDA_ERROR_NOT_PERMITTED));
  EXPECT_EQ(words[1], 0u);
}

TEST_F(StreamMemory, AStreamWaitsForAWord) {
  CUstream waits, writes;
  CUdeviceptr word = allocate(16);
  OK(cu.memset_d32(word, 0, 4));
  OK(cu.ctx_synchronize());
  OK(cu.stream_create(&waits, CU_STREAM_NON_BLOCKING));
  OK(cu.stream_create(&writes, CU_STREAM_NON_BLOCKING));
  OK(cu.stream_wait_value_32(waits, word, 5, CU_STREAM_WAIT_VALUE_GEQ));
  OK(cu.stream_write_value_64(waits, word + 8, 77, 0));
  EXPECT_EQ(cu.stream_query(waits), CUDA_ERROR_NOT_READY);
  OK(cu.stream_write_value_32(writes, word, 4, 0));
  OK(cu.stream_synchronize(writes));
  EXPECT_EQ(cu.stream_query(waits), CUDA_ERROR_NOT_READY);
  OK(cu.stream_write_value_32(writes, word, 6, 0));
  OK(cu.stream_synchronize(waits));
  uint64_t read = 0;
  OK(cu.memcpy_d_to_h(&read, word + 8, 8));
  EXPECT_EQ(read, 77u);
  EXPECT_EQ(cu.stream_wait_value_32(waits, word + 2, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.stream_wait_value_32(waits, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.stream_batch_mem_op(waits, 1, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  OK(cu.stream_destroy(waits));
  OK(cu.stream_destroy(writes));
}

TEST_F(StreamMemory, AttributesOfStreamsAreKeptAndCopied) {
  CUstream first, second;
  OK(cu.stream_create_with_priority(&first, CU_STREAM_NON_BLOCKING, -2));
  OK(cu.stream_create(&second, CU_STREAM_NON_BLOCKING));
  CUstreamAttrValue value;
  OK(cu.stream_get_attribute(first, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
  EXPECT_EQ(value.priority, -2);
  std::memset(&value, 0, sizeof value);
  value.syncPolicy = CU_SYNC_POLICY_BLOCKING_SYNC;
  OK(cu.stream_set_attribute(first, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  OK(cu.stream_copy_attributes(second, first));
  std::memset(&value, 0, sizeof value);
  OK(cu.stream_get_attribute(second, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  EXPECT_EQ(value.syncPolicy, CU_SYNC_POLICY_BLOCKING_SYNC);
  EXPECT_EQ(cu.stream_get_attribute(first, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value),
            CUDA_ERROR_INVALID_VALUE);
  OK(cu.stream_destroy(first));
  OK(cu.stream_destroy(second));
}

TEST_F(HostCalls, MayNotCallTheDriver) {
  EMULATOR_ONLY("a real driver may allow some calls, or hang");
  struct State {
    Driver* cu;
    CUcontext context;
    CUresult result = CUDA_SUCCESS;
  } state{&cu, context};
  auto call = [](void* p) {
    auto* state = static_cast<State*>(p);
    state->result = state->cu->ctx_synchronize();
  };
  OK(cu.launch_host_func(nullptr, call, &state));
  OK(cu.ctx_synchronize());
  EXPECT_EQ(state.result, CUDA_ERROR_NOT_PERMITTED);
}

TEST_F(HostCalls, TheFirstWayToLaunchStillWorks) {
  BODIES_ONLY();
  CUdeviceptr counter = allocate(4);
  CUfunction count = function("count");
  OK(cu.memset_d32(counter, 0, 1));
  EXPECT_EQ(cu.launch_whole(count), CUDA_ERROR_INVALID_VALUE);  // no shape yet
  EXPECT_EQ(cu.func_set_block_shape(count, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
  OK(cu.func_set_block_shape(count, 32, 1, 1));
  OK(cu.param_setv(count, 0, &counter, sizeof counter));
  OK(cu.param_set_size(count, sizeof counter));
  EXPECT_EQ(cu.param_seti(count, -4, 1), CUDA_ERROR_INVALID_VALUE);
  OK(cu.launch_grid(count, 3, 2));
  OK(cu.launch_whole(count));
  uint32_t blocks = 0;
  OK(cu.memcpy_d_to_h(&blocks, counter, 4));
  EXPECT_EQ(blocks, 7u);
}

}  // namespace
}  // namespace lambent::conformance
