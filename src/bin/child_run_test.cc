#include "bin/child_run.h"

#include <gtest/gtest.h>

#include <optional>

namespace lambent {
namespace {

class ChildRunTest : public testing::Test {
 protected:
  // Runs a shell command to its end.
  Result<ChildEnd> run(const std::string& command, const ChildLimits& limits = {}) {
    std::optional<Result<ChildEnd>> ended;
    auto started = ChildRun::start(loop_, {"/bin/sh", "-c", command}, limits,
                                   [&](Result<ChildEnd> end) { ended = std::move(end); });
    if (!started.ok()) return started.error();
    while (!ended) loop_.run_once(seconds(1));
    return *ended;
  }

  SystemClock clock_;
  loop::EventLoop loop_{clock_};
};

TEST_F(ChildRunTest, GivesWhatTheProgramPrintedAndHowItEnded) {
  const auto end = run("printf out; printf err >&2; exit 3");
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->output, "out");
  EXPECT_EQ(end->errors, "err");
  EXPECT_EQ(end->exit_code, 3);
}

TEST_F(ChildRunTest, GivesAllOfALongOutput) {
  const auto end = run("head -c 1000000 /dev/zero");
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->output.size(), 1'000'000u);
}

TEST_F(ChildRunTest, StopsAProgramThatPrintsTooMuch) {
  const auto end = run("cat /dev/zero", {.output = Bytes::kib(64)});
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().code, ErrorCode::kResourceExhausted);
}

TEST_F(ChildRunTest, StopsAProgramThatTakesTooLong) {
  const auto end = run("exec sleep 60", {.time = milliseconds(50)});
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().code, ErrorCode::kDeadlineExceeded);
}

TEST_F(ChildRunTest, TellsTheSignalThatEndedIt) {
  const auto end = run("kill -9 $$");
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->exit_code, 137);
}

TEST_F(ChildRunTest, GivesItAnEmptyEnvironment) {
  setenv("LAMBENT_TEST_SECRET", "x", 1);
  const auto end = run("/usr/bin/env");
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->output.find("LAMBENT_TEST_SECRET"), std::string::npos);
}

TEST_F(ChildRunTest, SaysThatThereIsNoSuchProgram) {
  const auto started = ChildRun::start(loop_, {"/no/such/program"}, {}, [](auto) {});
  EXPECT_FALSE(started.ok());
}

TEST_F(ChildRunTest, MayBeGivenUpWhileItRuns) {
  bool called = false;
  auto started =
      ChildRun::start(loop_, {"/bin/sh", "-c", "exec sleep 60"}, {}, [&](auto) { called = true; });
  ASSERT_TRUE(started.ok());
  started->reset();
  loop_.run_once(Duration());
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace lambent
