// How sandboxes end, by whomever, and that nothing is left of them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <set>

#include "node/sandbox/syscalls.h"
#include "node/sandbox/testing/sandbox_test_support.h"

namespace lambent::sandbox {
namespace {

std::set<std::string> entries(const std::string& folder, bool folders_only = false) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (folders_only && !entry.is_directory()) continue;
    names.insert(entry.path().filename());
  }
  return names;
}

// Processes of this machine that live in the given pid namespace.
size_t processes_in(const std::string& pid_namespace) {
  size_t count = 0;
  for (const std::string& name : entries("/proc")) {
    std::error_code failed;
    const auto link = std::filesystem::read_symlink("/proc/" + name + "/ns/pid", failed);
    if (!failed && link == pid_namespace) ++count;
  }
  return count;
}

pid_t parent_of(pid_t pid) {
  const auto text = read_file("/proc/" + std::to_string(pid) + "/status", 65536);
  if (!text.ok()) return -1;
  return atoi(text->c_str() + text->find("PPid:") + 5);
}

bool exists(pid_t pid) { return ::kill(pid, 0) == 0 || errno == EPERM; }

// Waits for another process's doing, without a loop to turn.
bool wait_until(const std::function<bool()>& done) {
  for (int i = 0; i < 500; ++i) {
    if (done()) return true;
    poll(nullptr, 0, 20);
  }
  return false;
}

class LifetimeTest : public testing::Test {
 protected:
  const Started& start(const LaunchPlan& plan) {
    harness_.launch(plan);
    CHECK(harness_.wait([&] { return harness_.started(plan.sandbox) != nullptr; }), "not started");
    return *harness_.started(plan.sandbox);
  }
  bool finish(SandboxId sandbox) {
    return harness_.wait([&] { return harness_.finished(sandbox); });
  }
  Harness harness_{test_options()};
};

TEST_F(LifetimeTest, KillEndsAllDescendantsAtOnce) {
  const LaunchPlan plan = shell_plan(
      "sleep 1000 & setsid sleep 1000 & (setsid bash -c 'trap \"\" TERM HUP; echo up; "
      "while :; do sleep 1; done' &); wait");
  const Started& started = start(plan);
  ASSERT_TRUE(harness_.wait([&] { return !harness_.outcome(plan.sandbox).output.empty(); }));
  std::error_code failed;
  const auto space =
      std::filesystem::read_symlink("/proc/" + std::to_string(started.pid) + "/ns/pid", failed);
  if (!failed) {
    EXPECT_GE(processes_in(space), 4U);
  }
  harness_.launcher().kill(plan.sandbox);
  ASSERT_TRUE(finish(plan.sandbox));
  EXPECT_TRUE(harness_.outcome(plan.sandbox).exit->killed);
  EXPECT_EQ(harness_.outcome(plan.sandbox).exit->signal, SIGKILL);
  if (!failed) {
    EXPECT_EQ(processes_in(space), 0U);
  }
}

// What the next program does with the launcher of this one.
class HandOverTest : public LifetimeTest {
 protected:
  std::unique_ptr<Launcher> succeed(std::vector<HandedOverLauncher> former) {
    auto next = start_launcher(harness_.loop(), log_, test_options(), std::move(former));
    CHECK(next.ok(), "no launcher");
    (*next)->on_exit([this](SandboxId id, const Exit& exit) { exits_[id] = exit; });
    return std::move(*next);
  }
  bool has_ended(SandboxId sandbox) {
    return harness_.wait([&] { return exits_.contains(sandbox); });
  }

  NullLogSink log_;
  std::map<SandboxId, Exit> exits_;
};

TEST_F(HandOverTest, ASandboxStaysAndAllOthersEnd) {
  const LaunchPlan stays = shell_plan("sleep 1000");
  const LaunchPlan ends = shell_plan("sleep 1000");
  const pid_t kept = start(stays).pid;
  const pid_t ended = start(ends).pid;
  auto launchers = harness_.launcher().hand_over({stays.sandbox});
  ASSERT_EQ(launchers.size(), 1u);
  EXPECT_EQ(launchers[0].kept.size(), 1u);
  EXPECT_FALSE(exists(ended)) << "when it is handed over, not some time later";
  const pid_t former = launchers[0].pid;
  auto next = succeed(std::move(launchers));
  const SandboxId name(1000);
  ASSERT_TRUE(next->adopt(name, 0, stays.sandbox));
  EXPECT_FALSE(next->adopt(SandboxId(1001), 0, ends.sandbox)) << "it has ended";
  EXPECT_FALSE(next->adopt(SandboxId(1001), 1, stays.sandbox)) << "no such launcher";
  next->end_unadopted();
  std::optional<Result<Bytes>> usage;
  next->usage(name, [&usage](Result<Bytes> bytes) { usage = std::move(bytes); });
  ASSERT_TRUE(harness_.wait([&usage] { return usage.has_value(); }));
  EXPECT_TRUE(exists(kept));
  next->kill(name);
  ASSERT_TRUE(has_ended(name));
  EXPECT_TRUE(exits_[name].killed);
  EXPECT_TRUE(harness_.wait([former] { return !exists(former); })) << "it has nothing left to do";
}

TEST_F(HandOverTest, WhatIsNotAdoptedEnds) {
  const LaunchPlan plan = shell_plan("sleep 1000");
  const pid_t pid = start(plan).pid;
  auto next = succeed(harness_.launcher().hand_over({plan.sandbox}));
  EXPECT_TRUE(exists(pid));
  next->end_unadopted();
  EXPECT_TRUE(harness_.wait([pid] { return !exists(pid); }));
  EXPECT_TRUE(exits_.empty()) << "it was told of to no owner";
}

TEST_F(HandOverTest, ItIsHandedOverAgainUnderItsNewName) {
  const LaunchPlan plan = shell_plan("sleep 1000");
  const pid_t pid = start(plan).pid;
  const SandboxId name(1000);
  const SandboxId name_after(2000);
  auto next = succeed(harness_.launcher().hand_over({plan.sandbox}));
  ASSERT_TRUE(next->adopt(name, 0, plan.sandbox));
  auto launchers = next->hand_over({name});
  ASSERT_EQ(launchers.size(), 1u) << "the other one has nothing that stays";
  EXPECT_EQ(launchers[0].kept[0].sandbox, name);
  EXPECT_EQ(launchers[0].kept[0].number, plan.sandbox);
  next.reset();
  EXPECT_TRUE(exists(pid));
  next = succeed(std::move(launchers));
  ASSERT_TRUE(next->adopt(name_after, 0, plan.sandbox));
  next.reset();
  EXPECT_FALSE(exists(pid)) << "it ends with its last owner";
}

TEST_F(LifetimeTest, ThePidfdTellsTheEndToo) {
  const LaunchPlan plan = shell_plan("exit 0");
  const Started& started = start(plan);
  ASSERT_TRUE(finish(plan.sandbox));
  pollfd watched{started.pidfd.get(), POLLIN, 0};
  EXPECT_EQ(poll(&watched, 1, 0), 1);
}

TEST_F(LifetimeTest, OrphansEndWithTheProgram) {
  const LaunchPlan plan = shell_plan("(setsid sleep 1000 &); exit 7");
  ASSERT_TRUE(finish((start(plan), plan.sandbox)));
  EXPECT_EQ(harness_.outcome(plan.sandbox).exit->exit_code, 7);
}

TEST_F(LifetimeTest, AProgramCannotKillItsInit) {
  const LaunchPlan plan =
      shell_plan("kill -9 1; kill -TERM 1; kill -STOP 1; kill -9 -1; echo here");
  start(plan);
  ASSERT_TRUE(finish(plan.sandbox));
  EXPECT_THAT(harness_.outcome(plan.sandbox).output, testing::EndsWith("here\n"));
  EXPECT_EQ(harness_.outcome(plan.sandbox).exit->exit_code, 0);
}

TEST_F(LifetimeTest, AProgramThatKillsItsParentShellEndsAsThatShellDid) {
  const LaunchPlan plan = shell_plan("bash -c 'kill -9 $PPID; sleep 1000'; echo not reached");
  start(plan);
  ASSERT_TRUE(finish(plan.sandbox));
  EXPECT_EQ(harness_.outcome(plan.sandbox).output, "");
  EXPECT_EQ(harness_.outcome(plan.sandbox).exit->signal, SIGKILL);
  EXPECT_FALSE(harness_.outcome(plan.sandbox).exit->out_of_memory);
  EXPECT_FALSE(harness_.outcome(plan.sandbox).exit->killed);
}

TEST_F(LifetimeTest, AProgramThatIsAskedToEndMayFinishInItsOwnWay) {
  const LaunchPlan plan = shell_plan(
      "trap 'echo asked; exit 3' TERM; "
      "bash -c 'trap \"echo the child was asked\" TERM; echo up; sleep 1000 & wait' & wait");
  start(plan);
  ASSERT_TRUE(harness_.wait([&] { return !harness_.outcome(plan.sandbox).output.empty(); }));
  harness_.launcher().terminate(plan.sandbox);
  ASSERT_TRUE(finish(plan.sandbox));
  EXPECT_EQ(harness_.outcome(plan.sandbox).output, "up\nasked\n");
  EXPECT_EQ(harness_.outcome(plan.sandbox).exit->exit_code, 3);
  EXPECT_FALSE(harness_.outcome(plan.sandbox).exit->killed);
}

TEST_F(LifetimeTest, AProgramThatDoesNotWantToEndGoesOnUntilItIsKilled) {
  const LaunchPlan plan =
      shell_plan("trap 'echo asked' TERM; echo up; while :; do sleep 0.01; done");
  start(plan);
  const std::string& output = harness_.outcome(plan.sandbox).output;
  ASSERT_TRUE(harness_.wait([&] { return output == "up\n"; }));
  harness_.launcher().terminate(plan.sandbox);
  ASSERT_TRUE(harness_.wait([&] { return output == "up\nasked\n"; }));
  EXPECT_FALSE(harness_.finished(plan.sandbox));
  harness_.launcher().kill(plan.sandbox);
  ASSERT_TRUE(finish(plan.sandbox));
  EXPECT_TRUE(harness_.outcome(plan.sandbox).exit->killed);
}

TEST_F(LifetimeTest, KillingWhatIsNotThereDoesNothing) {
  harness_.launcher().kill(SandboxId(123456));
  harness_.launcher().terminate(SandboxId(123456));
  EXPECT_EQ(harness_.run(shell_plan("echo fine")).output, "fine\n");
}

TEST_F(LifetimeTest, ASandboxKilledWhileItStartsIsToldAsCancelledOrEnded) {
  const LaunchPlan plan = shell_plan("sleep 1000");
  harness_.launch(plan);
  harness_.launcher().kill(plan.sandbox);
  ASSERT_TRUE(harness_.wait([&] { return harness_.finished(plan.sandbox); }));
  const Outcome& outcome = harness_.outcome(plan.sandbox);
  if (outcome.error) {
    EXPECT_EQ(outcome.error->code, ErrorCode::kCancelled);
  }
}

TEST_F(LifetimeTest, FiftySandboxesLeaveNothing) {
  ASSERT_EQ(harness_.run(shell_plan("true")).exit->exit_code, 0);
  harness_.forget_ended();
  const size_t descriptors = entries("/proc/self/fd").size();
  const auto mounts = read_file("/proc/self/mountinfo", 1 << 20).value();
  std::vector<LaunchPlan> plans;
  for (int i = 0; i < 50; ++i) {
    plans.push_back(shell_plan(i % 2 == 0 ? "echo x > /tmp/x; exit 3" : "sleep 1000"));
    harness_.launch(plans.back());
  }
  ASSERT_TRUE(harness_.wait([&] { return harness_.started(plans.back().sandbox) != nullptr; }));
  const pid_t launcher = parent_of(harness_.started(plans.back().sandbox)->pid);
  for (size_t i = 1; i < plans.size(); i += 2) harness_.launcher().kill(plans[i].sandbox);
  for (const LaunchPlan& plan : plans) ASSERT_TRUE(finish(plan.sandbox));
  for (size_t i = 0; i < plans.size(); i += 2) {
    EXPECT_EQ(harness_.outcome(plans[i].sandbox).exit->exit_code, 3);
  }
  harness_.forget_ended();
  EXPECT_EQ(entries("/proc/self/fd").size(), descriptors);
  EXPECT_EQ(read_file("/proc/self/mountinfo", 1 << 20).value(), mounts);
  // The prepared ones are all that lives; a busy cgroup may take a moment to go.
  const std::string folder = harness_.launcher().capabilities().cgroup_folder;
  const std::string children =
      "/proc/" + std::to_string(launcher) + "/task/" + std::to_string(launcher) + "/children";
  EXPECT_TRUE(harness_.wait([&] {
    const auto pids = read_file(children, 65536);
    const auto living = pids.ok() ? std::count(pids->begin(), pids->end(), ' ') : 0;
    return living <= 4 && (folder.empty() || entries(folder, true).size() <= 4);
  }));
}

TEST_F(LifetimeTest, ALauncherThatMayOpenNoMoreFilesAnswersEachLaunchAndRecovers) {
  const LaunchPlan first = shell_plan("sleep 1000");
  const pid_t launcher = parent_of(start(first).pid);
  const size_t open = entries("/proc/" + std::to_string(launcher) + "/fd").size();
  rlimit before{};
  ASSERT_EQ(prlimit(launcher, RLIMIT_NOFILE, nullptr, &before), 0);
  // Each time it gets a little further before it lacks one.
  for (rlim_t more = 0; more < 12; ++more) {
    const rlimit small{open + more, before.rlim_max};
    ASSERT_EQ(prlimit(launcher, RLIMIT_NOFILE, &small, nullptr), 0);
    std::vector<LaunchPlan> plans;
    for (int i = 0; i < 6; ++i) {  // more than are kept ready
      plans.push_back(shell_plan("true"));
      harness_.launch(plans.back());
    }
    for (const LaunchPlan& plan : plans) {
      ASSERT_TRUE(harness_.wait([&] { return harness_.finished(plan.sandbox); })) << more;
    }
    ASSERT_EQ(prlimit(launcher, RLIMIT_NOFILE, &before, nullptr), 0);
    EXPECT_EQ(harness_.run(shell_plan("echo hello")).output, "hello\n") << more;
  }
  EXPECT_FALSE(harness_.finished(first.sandbox)) << "who runs already is not concerned";
}

TEST_F(LifetimeTest, ALauncherWithNothingToDoSleeps) {
  const LaunchPlan plan = shell_plan("sleep 1000");
  const pid_t launcher = parent_of(start(plan).pid);
  harness_.launcher().kill(plan.sandbox);
  ASSERT_TRUE(finish(plan.sandbox));
  auto wakes = [&] {
    const auto text = read_file("/proc/" + std::to_string(launcher) + "/status", 65536).value();
    return atol(text.c_str() +
                text.rfind("voluntary_ctxt_switches:", text.find("nonvoluntary_ctxt_switches")) +
                strlen("voluntary_ctxt_switches:"));
  };
  auto ticks = [&] {
    const auto text = read_file("/proc/" + std::to_string(launcher) + "/schedstat", 4096).value();
    return Duration(atoll(text.c_str()));
  };
  harness_.wait([] { return false; }, milliseconds(200));
  const Duration before = ticks();
  const long slept = wakes();
  harness_.wait([] { return false; }, milliseconds(200));
  EXPECT_LT(ticks() - before, milliseconds(20));
  EXPECT_LE(wakes() - slept, 3);
}

TEST_F(LifetimeTest, WhenTheLauncherIsKilledAllSandboxesEndAndTheNextLaunchStartsAnother) {
  const LaunchPlan plan = shell_plan("sleep 1000");
  const Started& started = start(plan);
  const std::string folder = harness_.launcher().capabilities().cgroup_folder;
  ASSERT_EQ(::kill(parent_of(started.pid), SIGKILL), 0);
  ASSERT_TRUE(finish(plan.sandbox));
  EXPECT_EQ(harness_.outcome(plan.sandbox).exit->signal, SIGKILL);
  EXPECT_TRUE(wait_until([&] {
    pollfd watched{started.pidfd.get(), POLLIN, 0};
    return poll(&watched, 1, 0) == 1;
  }));
  const Outcome again = harness_.run(shell_plan("echo again"));
  EXPECT_FALSE(again.error) << to_string(*again.error);
  EXPECT_EQ(again.output, "again\n");
  // What the killed one left was swept away by its successor.
  if (!folder.empty()) {
    EXPECT_FALSE(std::filesystem::exists(folder));
  }
}

TEST_F(LifetimeTest, LaunchesWaitForALauncherThatMayNotBeStartedYet) {
  for (int death = 0; death < 2; ++death) {  // the second one within a second of its start
    const LaunchPlan plan = shell_plan("sleep 1000");
    ASSERT_EQ(::kill(parent_of(start(plan).pid), SIGKILL), 0);
    ASSERT_TRUE(finish(plan.sandbox));
  }
  const LaunchPlan waits = shell_plan("echo there");
  const LaunchPlan unwanted = shell_plan("sleep 1000");
  harness_.launch(waits);
  harness_.launch(unwanted);
  harness_.launcher().kill(unwanted.sandbox);
  ASSERT_TRUE(finish(waits.sandbox));
  EXPECT_FALSE(harness_.outcome(waits.sandbox).error);
  EXPECT_EQ(harness_.outcome(waits.sandbox).output, "there\n");
  ASSERT_TRUE(finish(unwanted.sandbox));
  EXPECT_EQ(harness_.outcome(unwanted.sandbox).error->code, ErrorCode::kCancelled);
}

TEST(WorkerDeathTest, WhenTheWorkerIsKilledAllThatItStartedEnds) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t worker = fork();
  if (worker == 0) {
    Harness harness(test_options());
    const LaunchPlan plan = shell_plan("setsid sleep 1000 & sleep 1000");
    harness.launch(plan);
    harness.wait([&] { return harness.started(plan.sandbox) != nullptr; });
    const pid_t pid = harness.started(plan.sandbox)->pid;
    const std::string folder = harness.launcher().capabilities().cgroup_folder;
    const std::string news =
        std::to_string(pid) + " " + std::to_string(parent_of(pid)) + " " + folder;
    (void)write_all(ends[1], news);
    pause();
    _exit(0);
  }
  char buffer[4096] = {};
  ASSERT_GT(read(ends[0], buffer, sizeof(buffer) - 1), 0);
  int init = 0, launcher = 0;
  char folder[4096] = {};
  ASSERT_GE(sscanf(buffer, "%d %d %4095s", &init, &launcher, folder), 2);
  EXPECT_TRUE(exists(init));
  ::kill(worker, SIGKILL);
  waitpid(worker, nullptr, 0);
  EXPECT_TRUE(wait_until([&] { return !exists(init) && !exists(launcher); }));
  if (folder[0] != '\0') {
    EXPECT_FALSE(std::filesystem::exists(folder));
  }
  close(ends[0]);
  close(ends[1]);
}

// As in containers whose only user is root, and who may not drop groups.
TEST(SameUserTest, RootOfANamespaceWithOneUserStartsSandboxesAsItself) {
  constexpr int kImpossible = 98;
  const pid_t child = fork();
  if (child == 0) {
    if (!enter_user_namespace(0, 0).ok() || setgroups(0, nullptr) == 0) _exit(kImpossible);
    const std::string probe = test_options().program + " --probe";
    const bool says_so =
        system(
            (probe + " | grep -q 'weaker: outside, programs are the worker.s own user'").c_str()) ==
        0;
    if (system((probe + " > /dev/null").c_str()) != 0) _exit(kImpossible);
    if (!says_so) _exit(1);
    execl("/proc/self/exe", "sandbox_test", "--gtest_filter=LauncherTest.*", "--gtest_brief=1",
          nullptr);
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kImpossible) GTEST_SKIP() << "no user namespaces in each other here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Everything above and beside, once more with the rights of an ordinary user.
TEST(OrdinaryUserTest, TheSameHoldsForAnOrdinaryUser) {
  if (geteuid() != 0) GTEST_SKIP() << "the tests run as an ordinary user already";
  constexpr int kNotExecutable = 99;
  constexpr int kImpossible = 98;
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kUser = 54321;
    if (setgroups(0, nullptr) != 0 || setresgid(kUser, kUser, kUser) != 0 ||
        setresuid(kUser, kUser, kUser) != 0) {
      _exit(kNotExecutable);
    }
    const std::string probe = test_options().program + " --probe > /dev/null";
    const int status = system(probe.c_str());
    if (WEXITSTATUS(status) == 1) _exit(kImpossible);
    if (status != 0) _exit(kNotExecutable);
    execl("/proc/self/exe", "sandbox_test",
          "--gtest_filter=LauncherTest.*:LauncherLimitsTest.*:IsolationTest.*:LimitsTest.*:"
          "LifetimeTest.*:WorkerDeathTest.*",
          "--gtest_brief=1", nullptr);
    _exit(kNotExecutable);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kImpossible) GTEST_SKIP() << "no user namespaces without root here";
  if (WEXITSTATUS(status) == kNotExecutable) {
    GTEST_SKIP() << "an ordinary user cannot reach this build folder";
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace lambent::sandbox
