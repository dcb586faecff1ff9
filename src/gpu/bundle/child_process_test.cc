#include "gpu/bundle/child_process.h"

#include <gtest/gtest.h>

namespace lambent::bundle {
namespace {

TEST(ChildProcessTest, OutputAndExitCodeComeBack) {
  const auto outcome = run_child({"sh", "-c", "echo out; echo err >&2; exit 3"}, {});
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->exit_code, 3);
  EXPECT_EQ(outcome->standard_output, "out\n");
  EXPECT_EQ(outcome->standard_error, "err\n");
  EXPECT_FALSE(outcome->timed_out);
}

TEST(ChildProcessTest, AProgramThatIsNotThereIsUnavailable) {
  const auto outcome = run_child({"no-such-program-at-all"}, {});
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code, ErrorCode::kUnavailable);
}

TEST(ChildProcessTest, AChildThatHangsIsKilledWithItsChildren) {
  ChildLimits limits;
  limits.wall_time = milliseconds(100);
  const auto outcome = run_child({"sh", "-c", "sleep 100 & sleep 100"}, limits);
  ASSERT_TRUE(outcome.ok());
  EXPECT_TRUE(outcome->timed_out);
  EXPECT_EQ(outcome->exit_code, 128 + 9);
}

TEST(ChildProcessTest, OutputBeyondTheLimitIsDroppedAndDoesNotBlock) {
  ChildLimits limits;
  limits.output = Bytes(1000);
  const auto outcome = run_child({"sh", "-c", "head -c 1000000 /dev/zero; exit 0"}, limits);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->exit_code, 0);
  EXPECT_EQ(outcome->standard_output.size(), 1000u);
}

}  // namespace
}  // namespace lambent::bundle
