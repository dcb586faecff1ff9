#include "executor/device_answer.h"

#include <gtest/gtest.h>

#include <thread>

namespace lambent::executor {
namespace {

using forwarding::SpinBudget;

TEST(DeviceAnswer, IsPostedWhereNobodyLooks) {
  DeviceAnswer answer;
  SpinBudget budget;
  EXPECT_FALSE(answer.look(budget).has_value()) << "nothing is expected";
  answer.expect();
  EXPECT_TRUE(answer.tell(CUDA_SUCCESS));
  EXPECT_FALSE(answer.look(budget).has_value()) << "it is on its way";
}

TEST(DeviceAnswer, IsPostedWhenTheLoopHasGivenUp) {
  DeviceAnswer answer;
  SpinBudget budget;
  answer.expect();
  EXPECT_FALSE(answer.look(budget).has_value());
  EXPECT_TRUE(answer.tell(CUDA_ERROR_UNKNOWN));
}

TEST(DeviceAnswer, ReachesTheLoopOnceWhicheverWay) {
  SpinBudget budget;
  for (int i = 0; i < 2000; ++i) {
    DeviceAnswer answer;
    bool posted = false;
    answer.expect();
    std::thread driver([&] { posted = answer.tell(CUDA_ERROR_LAUNCH_FAILED); });
    const auto result = answer.look(budget);
    driver.join();
    EXPECT_NE(result.has_value(), posted);
    if (result.has_value()) {
      EXPECT_EQ(*result, CUDA_ERROR_LAUNCH_FAILED);
    }
  }
}

}  // namespace
}  // namespace lambent::executor
