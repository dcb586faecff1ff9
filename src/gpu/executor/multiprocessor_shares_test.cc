#include "gpu/executor/multiprocessor_shares.h"

#include "gpu/executor/testing/testing.h"

namespace lambent::executor {
namespace {

// The tests' device has one group of multiprocessors; executor_shares_test.cc has a larger one.
using MultiprocessorSharesTest = EmulatedDevice;

TEST_F(MultiprocessorSharesTest, ADeviceOfOneGroupIsNotSplitAndSoIsReportedOnce) {
  MultiprocessorShares shares(*driver_, 0);
  ASSERT_NE(shares.multiprocessors(), nullptr);
  EXPECT_EQ(shares.multiprocessors()->groups(), 1u);
  testing::internal::CaptureStderr();
  EXPECT_TRUE(shares.give(SandboxId(1), 100).empty());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "it has all that it asks for";
  testing::internal::CaptureStderr();
  EXPECT_TRUE(shares.give(SandboxId(1), 50).empty());
  EXPECT_TRUE(shares.give(SandboxId(2), 50).empty());
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "lambent-executor: shares of the multiprocessors are not applied: this device has too "
            "few to be split\n");
}

TEST_F(MultiprocessorSharesTest, AUserWithoutAShareCanBeTakenBack) {
  MultiprocessorShares shares(*driver_, 0);
  shares.take_back(SandboxId(7));
  EXPECT_TRUE(shares.give(SandboxId(7), 100).empty());
}

}  // namespace
}  // namespace lambent::executor
