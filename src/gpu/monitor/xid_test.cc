#include "gpu/monitor/xid.h"

#include <gtest/gtest.h>

namespace lambent::monitor {
namespace {

using protocol::FaultGravity;

TEST(Xid, WhatApplicationsDoIsNoFaultOfTheDevice) {
  for (const uint64_t number : {13, 31, 43, 45, 68, 69, 109}) {
    EXPECT_EQ(xid_of(number).gravity, FaultGravity::kApplication) << number;
  }
}

TEST(Xid, WhatNvidiaTellsToResetForMakesADeviceSick) {
  for (const uint64_t number : {48, 62, 64, 74, 79, 92, 94, 95, 119, 120, 140, 143}) {
    EXPECT_EQ(xid_of(number).gravity, FaultGravity::kDevice) << number;
  }
  EXPECT_EQ(xid_of(79).what, "fallen off the bus");
}

TEST(Xid, WhatIsUnknownOrRecordedOnlyIsANotice) {
  for (const uint64_t number : {uint64_t{0}, uint64_t{63}, uint64_t{154}, uint64_t{9999}}) {
    EXPECT_EQ(xid_of(number).gravity, FaultGravity::kNotice) << number;
    EXPECT_EQ(xid_of(number).number, number);
  }
  EXPECT_EQ(xid_of(~uint64_t{0}).number, UINT32_MAX);
}

}  // namespace
}  // namespace lambent::monitor
