// Starting and ending: what the worker is told about a sandbox.
#include "node/sandbox/launcher.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <csignal>

#include "node/sandbox/testing/sandbox_test_support.h"

namespace lambent::sandbox {
namespace {

using testing::HasSubstr;

class LauncherTest : public testing::Test {
 protected:
  Outcome run(const std::string& script) { return harness_.run(shell_plan(script)); }
  Harness harness_{test_options()};
};

TEST_F(LauncherTest, AProgramSaysHelloAndItsEndIsTold) {
  const Outcome outcome = run("echo hello");
  EXPECT_EQ(outcome.output, "hello\n");
  ASSERT_TRUE(outcome.exit.has_value());
  EXPECT_EQ(outcome.exit->exit_code, 0);
  EXPECT_EQ(outcome.exit->signal, 0);
  EXPECT_FALSE(outcome.exit->killed);
  EXPECT_FALSE(outcome.exit->out_of_memory);
}

TEST_F(LauncherTest, StandardErrorComesByTheSamePipe) {
  EXPECT_EQ(run("echo oops >&2").output, "oops\n");
}

TEST_F(LauncherTest, ExitCodesAndSignalsAreTold) {
  EXPECT_EQ(run("exit 42").exit->exit_code, 42);
  const Outcome outcome = run("kill -SEGV $$");
  EXPECT_EQ(outcome.exit->signal, SIGSEGV);
  EXPECT_FALSE(outcome.exit->out_of_memory);
}

TEST_F(LauncherTest, TheEnvironmentIsThePlansAlone) {
  LaunchPlan plan = program_plan({"/usr/bin/env"});
  plan.environment = {{"COLOUR", "blue"}, {"EMPTY", ""}};
  EXPECT_EQ(harness_.run(plan).output, "COLOUR=blue\nEMPTY=\n");
}

TEST_F(LauncherTest, TheWorkingDirectoryIsTheCodesUnlessThePlanSaysOtherwise) {
  EXPECT_EQ(run("pwd").output, "/var/task\n");
  LaunchPlan plan = shell_plan("pwd");
  plan.working_directory = "/tmp";
  EXPECT_EQ(harness_.run(plan).output, "/tmp\n");
}

TEST_F(LauncherTest, AProgramIsFoundInThePathOfItsEnvironment) {
  const CodeFolder code;
  const_cast<CodeFolder&>(code).write("greet", "#!/bin/sh\necho found\n");
  LaunchPlan plan = program_plan({"greet"});
  plan.code = code.path();
  plan.environment["PATH"] = "/usr/bin:/var/task";
  EXPECT_EQ(harness_.run(plan).output, "found\n");
}

TEST_F(LauncherTest, AProgramThatIsMissingIsNotFound) {
  const Outcome outcome = harness_.run(program_plan({"/var/task/bootstrap"}));
  ASSERT_TRUE(outcome.error.has_value());
  EXPECT_EQ(outcome.error->code, ErrorCode::kNotFound);
  EXPECT_THAT(outcome.error->message, HasSubstr("/var/task/bootstrap"));
  const Outcome by_name = harness_.run(program_plan({"no-such-program"}));
  ASSERT_TRUE(by_name.error.has_value());
  EXPECT_EQ(by_name.error->code, ErrorCode::kNotFound);
}

TEST_F(LauncherTest, AProgramThatIsNotExecutableIsRefusedWithTheReason) {
  CodeFolder code;
  code.write("plain", "#!/bin/sh\n", 0644);
  code.write("garbage", "neither this nor that", 0755);
  code.write("lost", "#!/no/such/interpreter\n", 0755);
  auto try_program = [&](const std::string& name) {
    LaunchPlan plan = program_plan({"/var/task/" + name});
    plan.code = code.path();
    return harness_.run(plan).error.value_or(Error{});
  };
  EXPECT_EQ(try_program("plain").code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(try_program("garbage").code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(try_program("lost").code, ErrorCode::kNotFound);
  EXPECT_THAT(try_program("lost").message, HasSubstr("'#!'"));
}

TEST_F(LauncherTest, CodeThatIsMissingOnTheHostIsToldByName) {
  LaunchPlan plan = shell_plan("true");
  plan.code = "/no/such/folder";
  const Outcome outcome = harness_.run(plan);
  ASSERT_TRUE(outcome.error.has_value());
  EXPECT_THAT(outcome.error->message, HasSubstr("/no/such/folder"));
}

TEST_F(LauncherTest, ABrokenPlanIsRefusedBeforeAnythingStarts) {
  LaunchPlan plan = shell_plan("true");
  plan.binds = {{"/tmp/../etc", "/secrets", false}};
  const Outcome outcome = harness_.run(plan);
  ASSERT_TRUE(outcome.error.has_value());
  EXPECT_EQ(outcome.error->code, ErrorCode::kInvalidArgument);
}

TEST_F(LauncherTest, AnIdThatIsInUseIsRefused) {
  const LaunchPlan plan = shell_plan("sleep 1000");
  harness_.launch(plan);
  ASSERT_TRUE(harness_.wait([&] { return harness_.started(plan.sandbox) != nullptr; }));
  std::optional<Error> error;
  harness_.launcher().launch(plan, [&](Result<Started> result) { error = result.error(); });
  ASSERT_TRUE(harness_.wait([&] { return error.has_value(); }));
  EXPECT_EQ(error->code, ErrorCode::kAlreadyExists);
}

TEST_F(LauncherTest, AWorkerThatMayOpenNoMoreFilesLosesTheNewSandboxAndNoOther) {
  const LaunchPlan first = shell_plan("sleep 1000");
  harness_.launch(first);
  ASSERT_TRUE(harness_.wait([&] { return harness_.started(first.sandbox) != nullptr; }));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  // The lowest free descriptor is the first that may not be opened.
  const OwnedFd free(open("/dev/null", O_RDONLY | O_CLOEXEC));
  rlimit small = before;
  small.rlim_cur = static_cast<rlim_t>(free.get());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &small), 0);
  std::optional<Error> error;
  harness_.launcher().launch(shell_plan("sleep 1000"), [&](Result<Started> result) {
    error = result.ok() ? Error{} : result.error();
  });
  const bool answered = harness_.wait([&] { return error.has_value(); });
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(answered);
  EXPECT_EQ(error->code, ErrorCode::kResourceExhausted) << error->message;
  EXPECT_EQ(harness_.run(shell_plan("echo hello")).output, "hello\n");
  EXPECT_FALSE(harness_.outcome(first.sandbox).exit.has_value());
}

TEST_F(LauncherTest, TheRuntimeApiListensInsideAndIsAnsweredOutside) {
  const LaunchPlan plan = shell_plan(
      "exec 3<>/dev/tcp/127.0.0.1/9001; echo ping >&3; read -r line <&3; echo got $line");
  harness_.launch(plan);
  ASSERT_TRUE(harness_.wait([&] { return harness_.started(plan.sandbox) != nullptr; }));
  const int listener = harness_.started(plan.sandbox)->runtime_api_listener.get();
  OwnedFd connection;
  ASSERT_TRUE(harness_.wait([&] {
    connection = OwnedFd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    return connection.valid();
  }));
  char buffer[16] = {};
  EXPECT_EQ(read(connection.get(), buffer, sizeof(buffer)), 5);
  EXPECT_STREQ(buffer, "ping\n");
  EXPECT_TRUE(write_all(connection.get(), "pong\n").ok());
  ASSERT_TRUE(harness_.wait([&] { return harness_.finished(plan.sandbox); }));
  EXPECT_EQ(harness_.outcome(plan.sandbox).output, "got pong\n");
}

TEST_F(LauncherTest, MemoryInUseCanBeAsked) {
  const LaunchPlan plan =
      shell_plan("x=$(head -c 8000000 /dev/zero | tr '\\0' x); echo; sleep 1000; true");
  harness_.launch(plan);
  ASSERT_TRUE(harness_.wait([&] {
    return !harness_.outcome(plan.sandbox).output.empty() || harness_.finished(plan.sandbox);
  }));
  std::optional<Bytes> usage;
  harness_.launcher().usage(plan.sandbox, [&](Result<Bytes> answer) { usage = *answer; });
  harness_.launcher().usage(plan.sandbox, [](Result<Bytes>) {});
  std::optional<Error> unknown;
  harness_.launcher().usage(SandboxId(987654), [&](Result<Bytes> a) { unknown = a.error(); });
  harness_.wait([&] { return usage && unknown; });
  ASSERT_TRUE(usage.has_value());
  EXPECT_GE(*usage, Bytes::mib(7));
  const MemoryMeter& meter = harness_.started(plan.sandbox)->memory;
  EXPECT_TRUE(harness_.wait([&] { return meter.peak() >= Bytes::mib(7); }));
  EXPECT_GE(meter.now(), Bytes::mib(7));
  ASSERT_TRUE(unknown.has_value());
  EXPECT_EQ(unknown->code, ErrorCode::kNotFound);
}

TEST(LauncherLimitsTest, MoreSandboxesThanTheNodeMayHaveAreRefused) {
  LauncherOptions options = test_options();
  options.most_sandboxes = 2;
  Harness harness(options);
  const LaunchPlan first = shell_plan("sleep 1000");
  harness.launch(first);
  harness.launch(shell_plan("sleep 1000"));
  const Outcome third = harness.run(shell_plan("true"));
  ASSERT_TRUE(third.error.has_value());
  EXPECT_EQ(third.error->code, ErrorCode::kResourceExhausted);
  ASSERT_TRUE(harness.wait([&] { return harness.started(first.sandbox) != nullptr; }));
  harness.launcher().kill(first.sandbox);
  ASSERT_TRUE(harness.wait([&] { return harness.finished(first.sandbox); }));
  EXPECT_EQ(harness.run(shell_plan("echo again")).output, "again\n");
}

TEST(LauncherLimitsTest, ALaunchThatTakesTooLongIsGivenUpAndNothingIsLeft) {
  LauncherOptions options = test_options();
  options.launch_timeout = Duration(1);
  Harness harness(options);
  int exits = 0;
  harness.launcher().on_exit([&](SandboxId, Exit) { ++exits; });
  LaunchPlan plan = shell_plan("sleep 1000");
  int answers = 0;
  Error error;
  harness.launcher().launch(plan, [&](Result<Started> result) {
    ++answers;
    error = result.error();
  });
  ASSERT_TRUE(harness.wait([&] { return answers > 0; }));
  EXPECT_EQ(error.code, ErrorCode::kDeadlineExceeded);
  // Its id is free again once it is gone.
  ASSERT_TRUE(harness.wait([&] {
    bool refused = false;
    harness.launcher().launch(plan, [&](Result<Started> result) {
      refused = result.error().code == ErrorCode::kAlreadyExists;
      ++answers;
    });
    const int before = answers;
    harness.wait([&] { return answers > before; });
    return !refused;
  }));
  EXPECT_EQ(exits, 0);
}

TEST(LauncherStartTest, AMissingLauncherIsNotFound) {
  SystemClock clock;
  loop::EventLoop loop(clock);
  NullLogSink log;
  LauncherOptions options;
  options.program = "/no/such/lambent-launcher";
  const auto launcher = start_launcher(loop, log, options);
  ASSERT_FALSE(launcher.ok());
  EXPECT_EQ(launcher.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace lambent::sandbox
