#include "emulator/emulated_node/health.h"

#include <gtest/gtest.h>

#include "gpu/cuda_abi/driver_types.h"
#include "gpu/cuda_abi/nvml.h"

namespace lambent::emulated_node {
namespace {

class Health : public testing::Test {
 protected:
  DeviceHealth health{};
  NodeEvents events{};
};

TEST_F(Health, ALostDeviceStaysLostUntilItIsReset) {
  lose(health, events, 3);
  lose(health, events, 3);
  corrupt(health, events, 3);
  EXPECT_TRUE(health.lost);
  EXPECT_EQ(health.epoch, 1u);
  EXPECT_EQ(health.reason, CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(events.count, 1u);
  reset(health);
  EXPECT_FALSE(health.lost);
  EXPECT_EQ(health.epoch, 2u);
}

TEST_F(Health, AnUncorrectableErrorIsCountedAndTold) {
  corrupt(health, events, 0);
  EXPECT_EQ(health.reason, CUDA_ERROR_ECC_UNCORRECTABLE);
  EXPECT_EQ(health.retired_pages, 1u);
  const NodeEvent* first = event_after(events, 0);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->type, nvmlEventTypeDoubleBitEccError);
  const NodeEvent* second = event_after(events, first->number);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->data, static_cast<uint64_t>(kXidDoubleBitError));
  EXPECT_EQ(event_after(events, second->number), nullptr);
  reset(health);
  EXPECT_EQ(health.uncorrected, 1u);
  EXPECT_EQ(health.uncorrected_volatile, 0u);
}

TEST_F(Health, AReportedXidIsAnEventAndNothingElse) {
  report(events, 2, 31);
  const NodeEvent* event = event_after(events, 0);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->device, 2);
  EXPECT_EQ(event->data, 31u);
  EXPECT_EQ(health.epoch, 0u);
}

TEST_F(Health, OldEventsAreForgotten) {
  for (int i = 0; i < 2 * kMaxNodeEvents; i++) add_event(events, 0, 1, static_cast<uint64_t>(i));
  EXPECT_EQ(event_after(events, 0)->data, uint64_t{kMaxNodeEvents});
}

}  // namespace
}  // namespace lambent::emulated_node
