#include "gpu/executor/context_watch.h"

#include <gtest/gtest.h>

#include <vector>

namespace lambent::executor {
namespace {

class ContextWatchTest : public testing::Test {
 protected:
  CUresult state_ = CUDA_SUCCESS;
  std::vector<ContextWatch::Fault> faults_;
  ContextWatch watch_{[this] { return state_; },
                      [this](const ContextWatch::Fault& fault) { faults_.push_back(fault); }};
};

TEST_F(ContextWatchTest, AnErrorOfAContextThatWorksEndsNothing) {
  for (const CUresult state : {CUDA_SUCCESS, CUDA_ERROR_NOT_READY}) {
    state_ = state;
    EXPECT_FALSE(watch_.fault().has_value());
    EXPECT_FALSE(watch_.end_if_broken({ErrorCode::kInternal, "a call"}));
  }
  EXPECT_FALSE(watch_.has_ended());
  EXPECT_TRUE(faults_.empty());
}

TEST_F(ContextWatchTest, ABrokenContextIsReportedOnceWithItsErrorAndItsSuspect) {
  state_ = CUDA_ERROR_ILLEGAL_ADDRESS;
  EXPECT_TRUE(watch_.end_if_broken({ErrorCode::kInternal, "a kernel"}, SandboxId(3)));
  EXPECT_TRUE(watch_.end_if_broken({ErrorCode::kInternal, "another"}));
  EXPECT_TRUE(watch_.has_ended());
  ASSERT_EQ(faults_.size(), 1u);
  EXPECT_EQ(faults_[0].state, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(faults_[0].error.message, "a kernel");
  EXPECT_EQ(faults_[0].suspect, SandboxId(3));
}

TEST_F(ContextWatchTest, AnExecutorThatHasEndedReportsNoFaultAnyMore) {
  EXPECT_TRUE(watch_.end());
  EXPECT_FALSE(watch_.end());
  state_ = CUDA_ERROR_ILLEGAL_ADDRESS;
  EXPECT_TRUE(watch_.end_if_broken({ErrorCode::kInternal, "a kernel"}));
  EXPECT_TRUE(faults_.empty());
}

}  // namespace
}  // namespace lambent::executor
