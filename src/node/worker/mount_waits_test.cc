#include "node/worker/mount_waits.h"
#include "node/worker/limits.h"

#include <gtest/gtest.h>

#include <vector>

namespace lambent::worker {
namespace {

constexpr InvocationId kOne{1, 1};
constexpr InvocationId kTwo{1, 2};

class MountWaitsTest : public testing::Test {
 protected:
  void done(InvocationId id, Duration waited, const Result<void>& result) {
    waits.push_back(waited);
    if (result.ok()) return ready.push_back(id);
    failed.emplace_back(id, result.error().code);
  }
  FunctionSpec spec() {
    FunctionSpec spec;
    spec.mounts = {{.volume = "weights", .host = {}, .at = "/weights"}};
    return spec;
  }
  void pass(Duration time) {
    clock.advance(time);
    loop.run_once(Duration(0));
  }

  FakeClock clock;
  loop::EventLoop loop{clock};
  bool are_here = false;
  std::vector<std::function<void(Result<void>)>> brought;
  std::vector<InvocationId> ready;
  std::vector<std::pair<InvocationId, ErrorCode>> failed;
  std::vector<Duration> waits;
  MountWaits mounts{
      loop,
      {.are_here = [this](const FunctionSpec&) { return are_here; },
       .bring = [this](const FunctionSpec&, auto done) { brought.push_back(std::move(done)); }},
      [this](InvocationId id, Duration waited, const Result<void>& result) {
        done(id, waited, result);
      }};
};

TEST_F(MountWaitsTest, OneWhoseFilesAreHereOrThatMountsNoneDoesNotWait) {
  EXPECT_FALSE(mounts.begin(kOne, FunctionSpec()));
  are_here = true;
  EXPECT_FALSE(mounts.begin(kOne, spec()));
  EXPECT_TRUE(brought.empty());
}

TEST_F(MountWaitsTest, OthersWaitUntilTheyCame) {
  ASSERT_TRUE(mounts.begin(kOne, spec()));
  pass(seconds(2));
  ASSERT_TRUE(mounts.begin(kTwo, spec()));
  pass(seconds(1));
  EXPECT_EQ(mounts.waited(kOne), seconds(3));
  brought[0]({});
  brought[1](Error{ErrorCode::kUnavailable, "its node is gone"});
  EXPECT_EQ(ready, std::vector{kOne});
  EXPECT_EQ(failed, (std::vector{std::pair(kTwo, ErrorCode::kUnavailable)}));
  EXPECT_EQ(waits, (std::vector<Duration>{seconds(3), seconds(1)}));
  EXPECT_EQ(mounts.count(), 0u);
}

TEST_F(MountWaitsTest, ALimitEndsTheWaitAndWhatComesLaterIsNothing) {
  ASSERT_TRUE(mounts.begin(kOne, spec()));
  pass(kMountWait - seconds(1));
  EXPECT_TRUE(failed.empty());
  pass(seconds(1));
  EXPECT_EQ(failed, (std::vector{std::pair(kOne, ErrorCode::kUnavailable)}));
  brought[0]({});
  EXPECT_TRUE(ready.empty());
}

TEST_F(MountWaitsTest, OneMoreThanTheLimitIsRefusedAtOnce) {
  for (uint64_t id = 1; id <= limits::kInvocationsWaiting; ++id) {
    ASSERT_TRUE(mounts.begin({3, id}, spec()));
  }
  ASSERT_TRUE(failed.empty());
  EXPECT_TRUE(mounts.begin(kOne, spec()));
  EXPECT_EQ(failed, (std::vector{std::pair(kOne, ErrorCode::kResourceExhausted)}));
  EXPECT_EQ(mounts.count(), limits::kInvocationsWaiting);
  mounts.end({3, 1});
  EXPECT_TRUE(mounts.begin(kOne, spec()));
  EXPECT_EQ(failed.size(), 1u) << "there is a place again";
}

TEST_F(MountWaitsTest, OneThatEndsHearsNothing) {
  ASSERT_TRUE(mounts.begin(kOne, spec()));
  mounts.end(kOne);
  brought[0]({});
  pass(kMountWait * 2);
  EXPECT_TRUE(ready.empty());
  EXPECT_TRUE(failed.empty());
}

TEST_F(MountWaitsTest, AllEndWithTheWorker) {
  ASSERT_TRUE(mounts.begin(kOne, spec()));
  ASSERT_TRUE(mounts.begin(kTwo, spec()));
  mounts.fail_all({ErrorCode::kUnavailable, "it stops"});
  EXPECT_EQ(failed.size(), 2u);
  EXPECT_EQ(mounts.count(), 0u);
}

}  // namespace
}  // namespace lambent::worker
