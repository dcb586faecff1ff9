// Green contexts: the arithmetic of their multiprocessors, what they share with the primary
// context, and that their kernels keep to their part.
#include <vector>

#include "conformance/fixture.h"

namespace lambent::conformance {
namespace {

class GreenContexts : public WithKernels {
 protected:
  void SetUp() override {
    OK(cu.device_primary_ctx_retain(&primary, 0));
    OK(cu.ctx_set_current(primary));
    CUresult result = cu.device_get_dev_resource(0, &device_resource, CU_DEV_RESOURCE_TYPE_SM);
    if (result == CUDA_ERROR_NOT_SUPPORTED) GTEST_SKIP() << "no green contexts here";
    OK(result);
    std::string why_not;
    std::vector<char> image = kernel_image(&why_not);
    if (image.empty()) GTEST_SKIP() << why_not;
    OK(cu.module_load_data(&module, image.data()));
  }
  void TearDown() override {
    if (module) cu.module_unload(module);
    cu.ctx_set_current(nullptr);
    if (primary) {
      EXPECT_EQ(cu.device_primary_ctx_release(0), CUDA_SUCCESS);
    }
  }
  std::vector<CUdevResource> groups(unsigned least, unsigned most, CUdevResource* rest = nullptr) {
    std::vector<CUdevResource> found(most);
    unsigned count = most;
    EXPECT_EQ(
        cu.dev_sm_resource_split_by_count(found.data(), &count, &device_resource, rest, 0, least),
        CUDA_SUCCESS);
    found.resize(count);
    return found;
  }
  CUgreenCtx create(CUdevResource resource) {
    CUdevResourceDesc descriptor = nullptr;
    CUgreenCtx green = nullptr;
    EXPECT_EQ(cu.dev_resource_generate_desc(&descriptor, &resource, 1), CUDA_SUCCESS);
    EXPECT_EQ(cu.green_ctx_create(&green, descriptor, 0, CU_GREEN_CTX_DEFAULT_STREAM),
              CUDA_SUCCESS);
    return green;
  }
  // A device with as few multiprocessors as one group has only that one.
  bool two_groups() {
    return device_resource.sm.smCount >= 2 * device_resource.sm.minSmPartitionSize;
  }

  CUcontext primary = nullptr;
  CUdevResource device_resource{};
};

TEST_F(GreenContexts, TheDeviceOffersAllItsMultiprocessors) {
  int multiprocessors = 0;
  OK(cu.device_get_attribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  EXPECT_EQ(device_resource.type, CU_DEV_RESOURCE_TYPE_SM);
  EXPECT_EQ(static_cast<int>(device_resource.sm.smCount), multiprocessors);
  EXPECT_GE(device_resource.sm.minSmPartitionSize, 1u);
  CUdevResource of_context{};
  OK(cu.ctx_get_dev_resource(primary, &of_context, CU_DEV_RESOURCE_TYPE_SM));
  EXPECT_EQ(of_context.sm.smCount, device_resource.sm.smCount);
}

TEST_F(GreenContexts, ASplitGivesEqualGroupsAndTheRest) {
  unsigned possible = 0;
  OK(cu.dev_sm_resource_split_by_count(nullptr, &possible, &device_resource, nullptr, 0, 0));
  ASSERT_GE(possible, 1u);
  CUdevResource rest{};
  auto found = groups(1, possible + 5, &rest);
  ASSERT_EQ(found.size(), possible);
  unsigned total = 0;
  for (const CUdevResource& group : found) {
    EXPECT_EQ(group.sm.smCount, found[0].sm.smCount);
    EXPECT_GE(group.sm.smCount, device_resource.sm.minSmPartitionSize);
    total += group.sm.smCount;
  }
  if (rest.type == CU_DEV_RESOURCE_TYPE_SM) total += rest.sm.smCount;
  EXPECT_EQ(total, device_resource.sm.smCount);
}

TEST_F(GreenContexts, WrongResourcesAndArgumentsAreRefused) {
  unsigned count = 1;
  CUdevResource group{}, nothing{};
  CUdevResourceDesc descriptor = nullptr;
  CUgreenCtx green = nullptr;
  CUcontext context = nullptr;
  EXPECT_EQ(cu.dev_sm_resource_split_by_count(&group, &count, &nothing, nullptr, 0, 1),
            CUDA_ERROR_INVALID_RESOURCE_TYPE);
  EXPECT_EQ(cu.dev_sm_resource_split_by_count(&group, &count, &device_resource, nullptr, 0, 100000),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.dev_sm_resource_split_by_count(&group, nullptr, &device_resource, nullptr, 0, 1),
            CUDA_ERROR_INVALID_VALUE);
  group = groups(1, 1)[0];
  CUdevResource again{};
  EXPECT_EQ(cu.dev_sm_resource_split_by_count(&again, &count, &group, nullptr, 0, 1),
            CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  EXPECT_EQ(cu.dev_resource_generate_desc(nullptr, &group, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.dev_resource_generate_desc(&descriptor, &nothing, 1),
            CUDA_ERROR_INVALID_RESOURCE_TYPE);
  OK(cu.dev_resource_generate_desc(&descriptor, &group, 1));
  EXPECT_EQ(cu.green_ctx_create(&green, descriptor, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.green_ctx_create(&green, descriptor, 99, CU_GREEN_CTX_DEFAULT_STREAM),
            CUDA_ERROR_INVALID_DEVICE);
  EXPECT_NE(cu.ctx_from_green_ctx(&context, nullptr), CUDA_SUCCESS);
}

TEST_F(GreenContexts, SharesTheMemoryOfThePrimaryContext) {
  CUgreenCtx green = create(groups(1, 1)[0]);
  CUcontext context = nullptr, current = nullptr;
  unsigned long long id = 0, primary_id = 0;
  OK(cu.ctx_from_green_ctx(&context, green));
  OK(cu.ctx_set_current(context));
  OK(cu.ctx_get_current(&current));
  EXPECT_EQ(current, context);
  OK(cu.green_ctx_get_id(green, &id));
  OK(cu.ctx_get_id(primary, &primary_id));
  EXPECT_NE(id, primary_id);
  CUdeviceptr counter = allocate(4);
  OK(cu.memset_d32(counter, 7, 1));
  EXPECT_EQ(cu.ctx_destroy(context), CUDA_ERROR_INVALID_CONTEXT);
  OK(cu.ctx_set_current(primary));
  OK(cu.green_ctx_destroy(green));
  unsigned value = 0;
  OK(cu.memcpy_d_to_h(&value, counter, 4));
  EXPECT_EQ(value, 7u);
  OK(cu.mem_free(counter));
  EXPECT_NE(cu.green_ctx_destroy(green), CUDA_SUCCESS);
}

TEST_F(GreenContexts, KernelsRunOnItsStreams) {
  BODIES_ONLY();
  CUgreenCtx green = create(groups(1, 1)[0]), of_stream = nullptr;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  EXPECT_EQ(cu.green_ctx_stream_create(&stream, green, CU_STREAM_DEFAULT, 0),
            CUDA_ERROR_INVALID_VALUE);
  OK(cu.green_ctx_stream_create(&stream, green, CU_STREAM_NON_BLOCKING, 0));
  OK(cu.stream_get_green_ctx(stream, &of_stream));
  EXPECT_EQ(of_stream, green);
  CUdeviceptr counter = allocate(4);
  OK(cu.memset_d32(counter, 0, 1));
  OK(cu.ctx_synchronize());  // the green stream does not wait for the legacy one
  OK(launch(function("count"), 5, 32, stream, {&counter}));
  OK(cu.event_create(&event, CU_EVENT_DISABLE_TIMING));
  OK(cu.green_ctx_record_event(green, event));
  OK(cu.event_synchronize(event));
  unsigned value = 0;
  OK(cu.memcpy_d_to_h(&value, counter, 4));
  EXPECT_EQ(value, 5u);
  OK(cu.green_ctx_wait_event(green, event));
  OK(launch(function("count"), 5, 32, stream, {&counter}));
  OK(cu.ctx_synchronize());  // of the primary context: its green ones too
  OK(cu.memcpy_d_to_h(&value, counter, 4));
  EXPECT_EQ(value, 10u);
  OK(cu.event_destroy(event));
  OK(cu.mem_free(counter));
  OK(cu.stream_destroy(stream));
  OK(cu.green_ctx_destroy(green));
}

TEST_F(GreenContexts, ATextureIsDestroyedBehindWorkOfThemAll) {
  CUgreenCtx green = create(groups(1, 1)[0]);
  CUstream stream;
  OK(cu.green_ctx_stream_create(&stream, green, CU_STREAM_NON_BLOCKING, 0));
  CUdeviceptr memory = 0;
  OK(cu.mem_alloc(&memory, 4096));
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear = {memory, CU_AD_FORMAT_FLOAT, 1, 4096};
  const CUDA_TEXTURE_DESC descriptor{};
  CUtexObject texture = 0;
  OK(cu.tex_object_create(&texture, &resource, &descriptor, nullptr));
  LateWork work;
  OK(work.submit(stream));
  EXPECT_TRUE(work.is_waited_for([&] { return cu.tex_object_destroy(texture); }));
  OK(cu.mem_free(memory));
  OK(cu.stream_destroy(stream));
  OK(cu.green_ctx_destroy(green));
}

TEST_F(GreenContexts, EventsOfWholeContextsStandForAllOfTheirStreams) {
  CUstream one, two;
  CUevent event;
  OK(cu.stream_create(&one, CU_STREAM_NON_BLOCKING));
  OK(cu.stream_create(&two, CU_STREAM_NON_BLOCKING));
  OK(cu.event_create(&event, CU_EVENT_DISABLE_TIMING));
  CUdeviceptr word = allocate(4);
  Gate gate;
  OK(gate.close(one));
  OK(cu.ctx_record_event(primary, event));
  EXPECT_EQ(cu.event_query(event), CUDA_ERROR_NOT_READY);
  OK(cu.ctx_wait_event(primary, event));
  OK(cu.memset_d32_async(word, 1, 1, two));
  EXPECT_EQ(cu.stream_query(two), CUDA_ERROR_NOT_READY);  // all later work waits
  gate.open();
  OK(cu.event_synchronize(event));
  OK(cu.stream_synchronize(two));
  // Not while one of its streams captures.
  OK(cu.stream_begin_capture(one, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(cu.ctx_record_event(primary, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraph graph = nullptr;
  EXPECT_EQ(cu.stream_end_capture(one, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(cu.ctx_record_event(nullptr, event), CUDA_ERROR_INVALID_CONTEXT);
  OK(cu.mem_free(word));
  OK(cu.event_destroy(event));
  OK(cu.stream_destroy(one));
  OK(cu.stream_destroy(two));
}

TEST_F(GreenContexts, EventsOfThePrimaryContextStandForItsGreenOnesToo) {
  CUgreenCtx green = create(groups(1, 1)[0]);
  CUstream in_green, ordinary;
  CUevent event;
  OK(cu.green_ctx_stream_create(&in_green, green, CU_STREAM_NON_BLOCKING, 0));
  OK(cu.stream_create(&ordinary, CU_STREAM_NON_BLOCKING));
  OK(cu.event_create(&event, CU_EVENT_DISABLE_TIMING));
  CUdeviceptr word = allocate(4);
  {
    Gate gate;
    OK(gate.close(in_green));
    OK(cu.ctx_record_event(primary, event));
    EXPECT_EQ(cu.event_query(event), CUDA_ERROR_NOT_READY);
    gate.open();
    OK(cu.event_synchronize(event));
  }
  Gate gate;
  OK(gate.close(ordinary));
  OK(cu.event_record(event, ordinary));
  OK(cu.ctx_wait_event(primary, event));
  OK(cu.memset_d32_async(word, 1, 1, in_green));
  EXPECT_EQ(cu.stream_query(in_green), CUDA_ERROR_NOT_READY);
  gate.open();
  OK(cu.stream_synchronize(in_green));
  OK(cu.mem_free(word));
  OK(cu.event_destroy(event));
  OK(cu.stream_destroy(in_green));
  OK(cu.stream_destroy(ordinary));
  OK(cu.green_ctx_destroy(green));
}

TEST_F(GreenContexts, AStreamOutlivesItsContextAsAnErrorOnly) {
  CUgreenCtx green = create(groups(1, 1)[0]);
  CUstream stream = nullptr;
  OK(cu.green_ctx_stream_create(&stream, green, CU_STREAM_NON_BLOCKING, 0));
  OK(cu.green_ctx_destroy(green));
  EXPECT_EQ(cu.stream_synchronize(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cu.stream_destroy(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST_F(GreenContexts, KernelsTakeLongerOnFewerMultiprocessorsAndDoNotDisturbOthers) {
  MODELLED_TIME_ONLY();
  EMULATOR_ONLY("kernels of stated duration are the emulator's");
  CUdevResource rest{};
  unsigned count = 1, all = device_resource.sm.smCount;
  CUdevResource group{};
  OK(cu.dev_sm_resource_split_by_count(&group, &count, &device_resource, &rest,
                                       CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING, 2));
  ASSERT_EQ(group.sm.smCount, 2u);
  ASSERT_EQ(rest.sm.smCount, all - 2);
  CUgreenCtx small = create(group), large = create(rest);
  CUstream in_small = nullptr, in_large = nullptr;
  OK(cu.green_ctx_stream_create(&in_small, small, CU_STREAM_NON_BLOCKING, 0));
  OK(cu.green_ctx_stream_create(&in_large, large, CU_STREAM_NON_BLOCKING, 0));
  CUfunction busy = function("busy");
  uint64_t ns = 3'000'000;
  auto on_small = [&] { OK(launch(busy, 1000, 256, in_small, {&ns})); };
  float alone = milliseconds(in_small, on_small);
  EXPECT_NEAR(alone, 3.0 * all / 2, 0.01);
  // The same beside a kernel that fills the rest of the device.
  uint64_t long_ns = 10'000'000;
  OK(launch(busy, 1000, 256, in_large, {&long_ns}));
  EXPECT_NEAR(milliseconds(in_small, on_small), alone, 0.01);
  OK(cu.ctx_synchronize());
  for (CUstream stream : {in_small, in_large}) OK(cu.stream_destroy(stream));
  for (CUgreenCtx green : {small, large}) OK(cu.green_ctx_destroy(green));
}

TEST_F(GreenContexts, GroupsOfOneSplitMakeOneContextAndOthersDoNot) {
  if (!two_groups()) GTEST_SKIP() << "too few multiprocessors for two groups";
  auto first = groups(1, 2), second = groups(1, 2);
  CUdevResource together[2] = {first[0], first[1]};
  CUdevResourceDesc descriptor = nullptr;
  OK(cu.dev_resource_generate_desc(&descriptor, together, 2));
  together[1] = second[1];
  EXPECT_EQ(cu.dev_resource_generate_desc(&descriptor, together, 2),
            CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
}

}  // namespace
}  // namespace lambent::conformance
