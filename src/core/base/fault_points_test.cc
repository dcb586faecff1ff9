#include "core/base/fault_points.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace lambent {
namespace {

TEST(FaultPoints, EveryPointHasAName) {
  for (size_t i = 0; i < kFaultPoints.size(); ++i) {
    const auto& [name, point] = kFaultPoints[i];
    EXPECT_EQ(static_cast<size_t>(point), i) << name;
    const auto stopped = FaultPoints::parse(name);
    ASSERT_TRUE(stopped.ok()) << name;
    EXPECT_EQ(*stopped, std::pair(point, FaultPoints::Action::kStop));
    const auto held = FaultPoints::parse(std::string(name) + ":hold");
    ASSERT_TRUE(held.ok()) << name;
    EXPECT_EQ(*held, std::pair(point, FaultPoints::Action::kHold));
  }
}

TEST(FaultPoints, AnUnknownOneIsRefusedWithThoseThatThereAre) {
  for (const char* text :
       {"", "answer", "answered:kill", ":hold", "answered:", "answered:hold:2"}) {
    const auto parsed = FaultPoints::parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(parsed.error().message.find("placed, attempt_written"), std::string::npos);
  }
}

TEST(FaultPoints, TheProcessStopsTheFirstTimeOnly) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    FaultPoints faults(FaultPoint::kPlaced, FaultPoints::Action::kStop);
    reach(nullptr, FaultPoint::kPlaced);
    faults.reach(FaultPoint::kDelivered);
    faults.reach(FaultPoint::kPlaced);
    faults.reach(FaultPoint::kPlaced);
    _exit(7);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_EQ(WSTOPSIG(status), SIGSTOP);
  ASSERT_EQ(kill(child, SIGCONT), 0);
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

}  // namespace
}  // namespace lambent
