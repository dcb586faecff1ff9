// What befalls devices by a fault plan: the process that uses one, NVML, and whoever comes later.
#include <thread>

#include "conformance/own_node.h"

namespace lambent::conformance {
namespace {

class DeviceLoss : public testing::Test {
 protected:
  void SetUp() override {
    EMULATOR_ONLY("a GPU cannot be lost on demand");
    std::string error;
    ASSERT_TRUE(nvml.load(nvml_path(), &error)) << error;
    ASSERT_EQ(nvml.init(), NVML_SUCCESS);
    ASSERT_EQ(nvml.device_get_handle_by_index(0, &device), NVML_SUCCESS);
    ASSERT_EQ(nvml.event_set_create(&events), NVML_SUCCESS);
    ASSERT_EQ(nvml.device_register_events(
                  device, nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError, events),
              NVML_SUCCESS);
  }
  void TearDown() override {
    if (!device) return;
    EXPECT_EQ(nvml.event_set_free(events), NVML_SUCCESS);
    nvml.shutdown();
  }

  OwnNode node{"tiny", {}};
  Nvml nvml;
  nvmlDevice_t device = nullptr;
  nvmlEventSet_t events = nullptr;
};

TEST_F(DeviceLoss, EveryCallFailsAndNvmlTellsOfIt) {
  nvmlEventData_t event{};
  EXPECT_EQ(nvml.event_set_wait(events, &event, 0), NVML_ERROR_TIMEOUT);
  {
    Setting plan("EMULATED_CUDA_FAULTS", "lose device 0 on cuMemAlloc call 3");
    EXPECT_EQ(OwnNode::ask("faults_allocate"), "0 0 999 999 999 999");
  }
  ASSERT_EQ(nvml.event_set_wait(events, &event, 1000), NVML_SUCCESS);
  EXPECT_EQ(event.eventType, nvmlEventTypeXidCriticalError);
  EXPECT_EQ(event.eventData, 79u);
  nvmlMemory_t memory;
  EXPECT_EQ(nvml.device_get_memory_info(device, &memory), NVML_ERROR_GPU_IS_LOST);
  EXPECT_EQ(OwnNode::ask("node_describe"), "");  // there is no device any more
}

TEST_F(DeviceLoss, AnUncorrectableErrorKillsTheContextsOfTheMomentOnly) {
  {
    Setting plan("EMULATED_CUDA_FAULTS", "corrupt device 0 on cuMemAlloc call 2");
    EXPECT_EQ(OwnNode::ask("faults_allocate"), "0 214 214 214 214 214");
  }
  EXPECT_EQ(OwnNode::ask("faults_allocate"), "0 0 0 0 0 0");
  nvmlEventData_t event{};
  ASSERT_EQ(nvml.event_set_wait(events, &event, 1000), NVML_SUCCESS);
  EXPECT_EQ(event.eventType, nvmlEventTypeDoubleBitEccError);
  ASSERT_EQ(nvml.event_set_wait(events, &event, 1000), NVML_SUCCESS);
  EXPECT_EQ(event.eventData, 48u);
  unsigned long long errors = 0;
  ASSERT_EQ(nvml.device_get_total_ecc_errors(device, NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                                             NVML_AGGREGATE_ECC, &errors),
            NVML_SUCCESS);
  EXPECT_EQ(errors, 1u);
  unsigned pages = 0;
  ASSERT_EQ(nvml.device_get_retired_pages(device, NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
                                          &pages, nullptr),
            NVML_SUCCESS);
  EXPECT_EQ(pages, 1u);
}

// A callback of its stream that said all is well would let the program take what was never computed
// for a result.
TEST_F(DeviceLoss, AStuckKernelEndsWhenItsDeviceIsLostAndAllAreTold) {
  Setting plan("EMULATED_CUDA_FAULTS", "stick device 0; lose device 0 on cuProfilerStart call 1");
  EXPECT_EQ(OwnNode::ask("faults_stuck"), "600 999 999 999");
}

// Each takes the lock of the event sets and that of the node: in one order, or they would wait for
// each other for ever.
TEST_F(DeviceLoss, EventsAreRegisteredWhileAnotherThreadAsksForSome) {
  constexpr int kTimes = 2000;
  std::thread asking([&] {
    nvmlEventData_t event{};
    for (int i = 0; i < kTimes; i++) {
      EXPECT_EQ(nvml.event_set_wait(events, &event, 0), NVML_ERROR_TIMEOUT);
    }
  });
  for (int i = 0; i < kTimes; i++) {
    EXPECT_EQ(nvml.device_register_events(device, nvmlEventTypeXidCriticalError, events),
              NVML_SUCCESS);
  }
  asking.join();
}

TEST_F(DeviceLoss, HandlesOfEventSetsAreChecked) {
  nvmlEventData_t event{};
  EXPECT_EQ(nvml.event_set_wait(nullptr, &event, 0), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(nvml.event_set_free(nullptr), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(nvml.device_register_events(device, ~0ull, events), NVML_ERROR_NOT_SUPPORTED);
}

}  // namespace
}  // namespace lambent::conformance
