// What a program inside may use, and that its neighbours do not notice when it wants more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <optional>
#include <sstream>

#include "core/base/fd.h"
#include "node/sandbox/start_limits.h"
#include "node/sandbox/testing/sandbox_test_support.h"

namespace lambent::sandbox {
namespace {

using testing::HasSubstr;

class LimitsTest : public testing::Test {
 protected:
  Outcome run(const std::string& script) { return harness_.run(shell_plan(script)); }
  bool start(const LaunchPlan& plan) {
    harness_.launch(plan);
    return harness_.wait([&] { return harness_.started(plan.sandbox) != nullptr; });
  }
  Harness harness_{test_options()};
};

// Whether the group of a process gives way to others; none: there is no cpu controller, or the
// kernel knows no such groups.
std::optional<bool> gives_way(pid_t pid) {
  const auto groups = read_file("/proc/" + std::to_string(pid) + "/cgroup", 65536);
  if (!groups.ok()) return std::nullopt;
  std::istringstream lines(*groups);
  for (std::string line; std::getline(lines, line);) {
    const size_t path = line.rfind(':') + 1;
    const size_t names = line.find(':') + 1;
    const std::string controllers = line.substr(names, path - 1 - names);
    const std::string folder = controllers.empty() ? "" : "/cpu";
    // Such as "cpu,cpuacct".
    if (!controllers.empty() && ("," + controllers + ",").find(",cpu,") == std::string::npos) {
      continue;
    }
    const auto idle = read_file("/sys/fs/cgroup" + folder + line.substr(path) + "/cpu.idle", 16);
    if (idle.ok()) return *idle == "1\n";
  }
  return std::nullopt;
}

class GivingWayTest : public LimitsTest {
 protected:
  void start_one() {
    ASSERT_TRUE(start(plan_));
    pid_ = harness_.started(plan_.sandbox)->pid;
    if (!gives_way(pid_)) GTEST_SKIP() << "no groups that give way here";
    EXPECT_EQ(gives_way(pid_), true);
  }
  LaunchPlan plan_ = shell_plan("sleep 1000");
  pid_t pid_ = 0;
};

TEST_F(GivingWayTest, ASandboxGivesWayUntilItsProgramIsReady) {
  start_one();
  if (IsSkipped()) return;
  harness_.launcher().ready(plan_.sandbox);
  EXPECT_TRUE(harness_.wait([this] { return gives_way(pid_) == false; }));
}

TEST_F(GivingWayTest, ASandboxWhoseProgramIsNeverReadyGivesWayForSomeTime) {
  start_one();
  if (IsSkipped()) return;
  EXPECT_TRUE(harness_.wait([this] { return gives_way(pid_) == false; }));
}

TEST_F(LimitsTest, ProcessesStopAtTheLimit) {
  LaunchPlan plan = shell_plan("for i in $(seq 40); do sleep 1000 & done; echo made all");
  plan.limits.processes = 20;
  plan.environment["PATH"] = "/usr/bin";
  harness_.launch(plan);
  ASSERT_TRUE(harness_.wait(
      [&] { return harness_.outcome(plan.sandbox).output.find("fork") != std::string::npos; }));
  EXPECT_EQ(run("echo neighbour").output, "neighbour\n");
  harness_.launcher().kill(plan.sandbox);
  ASSERT_TRUE(harness_.wait([&] { return harness_.finished(plan.sandbox); }));
  EXPECT_THAT(harness_.outcome(plan.sandbox).output, testing::Not(HasSubstr("made all")));
}

TEST_F(LimitsTest, AForkBombHarmsOnlyItself) {
  LaunchPlan bomb = shell_plan("f() { f | f & }; f; sleep 1000");
  bomb.limits.processes = 64;
  harness_.read_output(bomb.sandbox, false);
  ASSERT_TRUE(start(bomb));
  EXPECT_EQ(run("echo neighbour").output, "neighbour\n");
  harness_.launcher().kill(bomb.sandbox);
  ASSERT_TRUE(harness_.wait([&] { return harness_.outcome(bomb.sandbox).exit.has_value(); }));
  EXPECT_TRUE(harness_.outcome(bomb.sandbox).exit->killed);
}

TEST_F(LimitsTest, AMemoryHogIsEndedAndToldFromACrash) {
  // tail keeps the whole of a line that never ends.
  LaunchPlan plan = program_plan({"/usr/bin/tail", "/dev/zero"});
  plan.limits.memory = Bytes::mib(48);
  const Outcome outcome = harness_.run(plan);
  ASSERT_TRUE(outcome.exit.has_value());
  EXPECT_TRUE(outcome.exit->out_of_memory);
  EXPECT_GE(outcome.exit->memory_peak, Bytes::mib(40));
  EXPECT_THAT(to_string(*outcome.exit), HasSubstr("out of memory"));
  if (harness_.launcher().capabilities().memory_cgroup) {
    EXPECT_LE(outcome.exit->memory_peak, Bytes::mib(48));
  }
}

TEST_F(LimitsTest, MemoryBelowTheLimitIsFine) {
  LaunchPlan plan = shell_plan("x=$(head -c 8000000 /dev/zero | tr '\\0' x); echo ${#x}");
  plan.limits.memory = Bytes::mib(128);
  EXPECT_EQ(harness_.run(plan).output, "8000000\n");
}

TEST_F(LimitsTest, AFileStopsGrowingAtTheLimit) {
  LaunchPlan plan = shell_plan("head -c 3000000 /dev/zero > /tmp/big; stat -c %s /tmp/big");
  plan.limits.file_size = Bytes::mib(1);
  EXPECT_THAT(harness_.run(plan).output, HasSubstr("\n1048576\n"));
}

TEST_F(LimitsTest, ScratchSpaceEndsAtTheLimit) {
  LaunchPlan plan = shell_plan("head -c 3000000 /dev/zero > /tmp/big; echo; stat -c %s /tmp/big");
  plan.limits.scratch = Bytes::mib(1);
  const std::string output = harness_.run(plan).output;
  EXPECT_THAT(output, HasSubstr("No space left on device"));
  EXPECT_THAT(output, HasSubstr("\n1048576\n"));
}

TEST_F(LimitsTest, SharedMemoryHasTheSizeOfThePlan) {
  LaunchPlan plan =
      shell_plan("df -k --output=size /dev/shm | tail -1; touch /dev/shm/x && echo x");
  EXPECT_THAT(harness_.run(plan).output, HasSubstr("65536\nx\n"));
  plan.limits.shared_memory = Bytes::mib(256);
  EXPECT_THAT(harness_.run(plan).output, HasSubstr("262144\nx\n"));
}

TEST_F(LimitsTest, OpenFilesAndCoreDumpsAreLimited) {
  LaunchPlan plan = shell_plan("ulimit -n; ulimit -c; ulimit -Hn");
  plan.limits.open_files = 77;
  EXPECT_EQ(harness_.run(plan).output, "77\n0\n77\n");
}

TEST_F(LimitsTest, ACpuQuotaSlowsDown) {
  if (!harness_.launcher().capabilities().cpu_cgroup) GTEST_SKIP() << "no cpu cgroup here";
  LaunchPlan plan = shell_plan("timeout 1 bash -c 'while :; do :; done'; exit 0");
  plan.limits.cpus = 0.1;
  const auto begin = std::chrono::steady_clock::now();
  const Outcome outcome = harness_.run(plan);
  // Without a quota it is most of the time, but where others use the processors too.
  EXPECT_LT(outcome.exit->cpu, (std::chrono::steady_clock::now() - begin) * 0.4);
}

// The processors that this test may use.
std::vector<uint32_t> own_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<uint32_t> all;
  for (uint32_t processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(processor, &set)) all.push_back(processor);
  }
  return all;
}

constexpr const char* kShowProcessors = "grep Cpus_allowed_list /proc/self/status | cut -f2";

TEST_F(LimitsTest, ASandboxStaysOnItsProcessorsAsFarAsItMay) {
  const std::vector<uint32_t> own = own_processors();
  // Of two that differ, one at least is not what it would have without a plan.
  for (const uint32_t allowed : {own.front(), own.back()}) {
    LaunchPlan plan = shell_plan(kShowProcessors);
    plan.processors = {allowed, kMostProcessors - 1};
    EXPECT_EQ(harness_.run(plan).output, std::to_string(allowed) + "\n");
  }
}

TEST_F(LimitsTest, AHundredMegabytesOfOutputWaitForTheReaderAndDisturbNobody) {
  const LaunchPlan plan = shell_plan("head -c 100000000 /dev/zero");
  harness_.read_output(plan.sandbox, false);
  ASSERT_TRUE(start(plan));
  EXPECT_EQ(run("echo neighbour").output, "neighbour\n");
  EXPECT_FALSE(harness_.outcome(plan.sandbox).exit.has_value());
  harness_.read_output(plan.sandbox, true);
  ASSERT_TRUE(harness_.wait([&] { return harness_.finished(plan.sandbox); }));
  EXPECT_EQ(harness_.outcome(plan.sandbox).output.size(), 100'000'000U);
}

}  // namespace
}  // namespace lambent::sandbox
