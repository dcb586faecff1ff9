#include "bin/child_run.h"

#include <gtest/gtest.h>

#include <optional>

#include "core/base/utf8.h"

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

TEST(InOneLine, JoinsLines) {
  EXPECT_EQ(in_one_line(""), "");
  EXPECT_EQ(in_one_line("\nwarning: a\n\nerror: b\n"), "warning: a; error: b");
}

TEST(InOneLine, KeepsTheBeginningAndTheEndOfALongText) {
  std::string warnings;
  for (int i = 0; i < 100; ++i) warnings += "warning: it is not as it should be\n";
  const std::string line = in_one_line("first\n" + warnings + "error: the last");
  EXPECT_EQ(line.find("first; warning: "), 0U);
  EXPECT_TRUE(line.ends_with("; error: the last")) << line;
  EXPECT_NE(line.find(" bytes left out] "), std::string::npos) << line;
  EXPECT_LT(line.size(), 1'000U);
}

TEST(InOneLine, CutsNoCharacter) {
  for (size_t before = 0; before < 4; ++before) {
    std::string text(before, 'x');
    for (int i = 0; i < 1'000; ++i) text += "\xe2\x82\xac";
    EXPECT_TRUE(is_utf8(in_one_line(text))) << before;
  }
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
