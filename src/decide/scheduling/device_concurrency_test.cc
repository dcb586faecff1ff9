#include "decide/scheduling/device_concurrency.h"

#include <gtest/gtest.h>

namespace lambent::scheduling {
namespace {

TEST(DeviceConcurrency, OneMoreMayRunWhileThereIsHeadroom) {
  DeviceConcurrency concurrency({.threshold = 0.9, .most = 4});
  concurrency.reading(0.5);
  EXPECT_EQ(concurrency.tokens(0), 1u);
  EXPECT_EQ(concurrency.tokens(2), 3u);
  concurrency.reading(0.95);
  EXPECT_EQ(concurrency.tokens(2), 2u);
}

TEST(DeviceConcurrency, OneMayAlwaysRunAndNeverMoreThanTheMost) {
  DeviceConcurrency concurrency({.threshold = 0.9, .most = 4});
  concurrency.reading(1.0);
  EXPECT_EQ(concurrency.tokens(0), 1u);
  concurrency.reading(0.0);
  EXPECT_EQ(concurrency.tokens(4), 4u);
}

TEST(DeviceConcurrency, DispatchesCountAsUtilisationUntilTheNextReading) {
  DeviceConcurrency concurrency({.threshold = 0.7, .most = 4});
  concurrency.reading(0.0);
  for (unsigned running = 0; running < 3; ++running) {
    ASSERT_EQ(concurrency.tokens(running), running + 1);
    concurrency.dispatched();
  }
  EXPECT_EQ(concurrency.tokens(3), 3u);  // 3/4 is tracked
  concurrency.reading(0.4);
  EXPECT_EQ(concurrency.tokens(3), 4u);
}

}  // namespace
}  // namespace lambent::scheduling
