#include "gpu/bundle/child_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

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

TEST(ChildProcessTest, AnEndThatComesBeforeTheWallTimeCounts) {
  const SystemClock clock;
  const auto outcome = run_child({"sleep", "1000"}, {.end = clock.now() + milliseconds(50)});
  ASSERT_TRUE(outcome.ok());
  EXPECT_TRUE(outcome->timed_out);
}

TEST(ChildProcessTest, AChildMayStayInTheGroup) {
  const std::vector<std::string> group = {"sh", "-c",
                                          "read _ _ _ _ its _ </proc/$$/stat; echo $its"};
  const auto shared = run_child(group, {.in_own_group = false}), own = run_child(group, {});
  ASSERT_TRUE(shared.ok() && own.ok());
  EXPECT_EQ(shared->standard_output, std::to_string(getpgrp()) + "\n");
  EXPECT_NE(own->standard_output, shared->standard_output);
}

TEST(ChildProcessTest, AChildEndsWithItsParent) {
  int held[2];  // by the child, until it ends
  ASSERT_EQ(pipe(held), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    (void)run_child({"sh", "-c", "echo >&" + std::to_string(held[1]) + "; exec sleep 1000"},
                    {.wall_time = seconds(1000)});
    _exit(0);
  }
  close(held[1]);
  char started;
  ASSERT_EQ(read(held[0], &started, 1), 1);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  pollfd end = {held[0], POLLIN, 0};
  EXPECT_EQ(poll(&end, 1, 10'000), 1);
  EXPECT_EQ(read(held[0], &started, 1), 0);
  close(held[0]);
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
