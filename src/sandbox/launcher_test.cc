// Whole sandboxes: what a program inside sees and may do.
#include "sandbox/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/sandbox_harness.h"

namespace lambent::sandbox {
namespace {

using testing::HasSubstr;
using testing::Not;

LauncherOptions options() {
  LauncherOptions options;
  options.program = LAMBENT_BINARY_DIR "/bin/lambent-launcher";
  return options;
}

LaunchPlan shell_plan(const std::string& script) {
  static uint64_t next = 1;
  LaunchPlan plan;
  plan.sandbox = SandboxId(next++);
  plan.argv = {"/bin/sh", "-c", script};
  return plan;
}

class LauncherTest : public testing::Test {
 protected:
  Outcome run(const std::string& script) { return harness_.run(shell_plan(script)); }
  Harness harness_{options()};
};

TEST_F(LauncherTest, SaysHello) {
  const Outcome outcome = run("echo hello");
  EXPECT_EQ(outcome.output, "hello\n");
  ASSERT_TRUE(outcome.exit.has_value());
  EXPECT_EQ(outcome.exit->exit_code, 0);
  EXPECT_EQ(outcome.exit->signal, 0);
}

}  // namespace
}  // namespace lambent::sandbox
