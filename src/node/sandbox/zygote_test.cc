// Sandboxes whose program is forked from a zygote: walls, limits and what they have in common.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <set>

#include "node/sandbox/testing/sandbox_test_support.h"

namespace lambent::sandbox {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr char kPython[] = "/usr/bin/python3";
constexpr char kRuntime[] = LAMBENT_BINARY_DIR "/share/lambent/python";

class ZygoteTest : public testing::Test {
 protected:
  void SetUp() override {
    if (access(kPython, X_OK) != 0) GTEST_SKIP() << "no " << kPython;
    const Capabilities& can = harness_.launcher().capabilities();
    if (!can.memory_cgroup || !can.user_namespaces) GTEST_SKIP() << "zygotes are impossible here";
    harness_.launcher().on_zygote(
        [this](const std::string&, ZygoteEvent event, const std::string& why) {
          events_.push_back(event);
          why_ = why;
        });
  }

  // A handler's module that runs this while it is imported.
  LaunchPlan plan(const std::string& code, const std::string& key = "plain",
                  std::vector<std::string> preload = {}) {
    auto& folder = codes_.emplace_back(std::make_unique<CodeFolder>());
    folder->write("app.py", "import os, sys\n" + code + "\nsys.stdout.flush()\nos._exit(0)\n");
    LaunchPlan plan = program_plan({kPython, "-m", "lambent_runtime", "app.handler"});
    plan.code = folder->path();
    plan.environment = {{"PYTHONPATH", "/var/task:/var/runtime"},
                        {"PATH", "/usr/bin:/bin"},
                        {"AWS_LAMBDA_RUNTIME_API", kRuntimeApiAddress}};
    plan.binds = {{kRuntime, "/var/runtime"}, {packages_.path(), "/opt/lambent/python"}};
    plan.zygote.emplace();
    plan.zygote->key = key;
    plan.zygote->argv = {kPython, "-m", "lambent_runtime.zygote"};
    for (std::string& module : preload) plan.zygote->argv.push_back(std::move(module));
    plan.zygote->environment = {{"PYTHONPATH", "/var/task:/var/runtime:/opt/lambent/python"},
                                {"PATH", "/usr/bin:/bin"}};
    plan.zygote->binds = plan.binds;
    plan.environment["PYTHONPATH"] = plan.zygote->environment["PYTHONPATH"];
    return plan;
  }

  Outcome run(const LaunchPlan& plan) {
    const Outcome outcome = harness_.run(plan);
    EXPECT_FALSE(outcome.error.has_value()) << to_string(*outcome.error);
    const Started* started = harness_.started(plan.sandbox);
    forked_ = started != nullptr && started->forked;
    return outcome;
  }

  // Starts one sandbox, and waits for the zygote.
  void bring_up(const std::string& key = "plain", std::vector<std::string> preload = {}) {
    events_.clear();
    run(plan("", key, std::move(preload)));
    EXPECT_FALSE(forked_);
    ASSERT_TRUE(harness_.wait([this] { return !events_.empty(); }));
  }

  std::string forked_output(const std::string& code) {
    const Outcome outcome = run(plan(code));
    EXPECT_TRUE(forked_) << why_;
    return outcome.output;
  }

  // Of a zygote's program, by its parent, its root: a child of a child of ours.
  static bool belongs_to_harness(const std::string& status) {
    const pid_t root = parent_in(status);
    const pid_t launcher = parent_of(root);
    const auto root_pids = field(status_text(root), "Name:\t");
    return root_pids == "lambent-zygote" && parent_of(launcher) == getpid();
  }
  static std::string status_text(pid_t pid) {
    auto text = read_file("/proc/" + std::to_string(pid) + "/status", 4096);
    return text.ok() ? *text : "";
  }
  static std::string field(const std::string& status, const std::string& name) {
    const size_t at = status.find(name);
    if (at == std::string::npos) return "";
    const size_t start = at + name.size();
    return status.substr(start, status.find('\n', start) - start);
  }
  static pid_t parent_in(const std::string& status) {
    return atoi(field(status, "PPid:\t").c_str());
  }
  static pid_t parent_of(pid_t pid) { return parent_in(status_text(pid)); }

  CodeFolder packages_;
  std::vector<std::unique_ptr<CodeFolder>> codes_;
  std::vector<ZygoteEvent> events_;
  std::string why_;
  bool forked_ = false;
  Harness harness_{test_options()};
};

TEST_F(ZygoteTest, TheSecondSandboxIsForkedAndRunsItsOwnCode) {
  bring_up();
  ASSERT_EQ(events_.back(), ZygoteEvent::kReady) << why_;
  EXPECT_EQ(forked_output("print('mine', os.getcwd(), sys.path[0], sys.argv[1])"),
            "mine /var/task /var/task app.handler\n");
}

TEST_F(ZygoteTest, AForkHasTheWallsThatAProgramHas) {
  bring_up();
  const std::string code =
      "status = dict(l.rstrip('\\n').split(':\\t', 1) for l in open('/proc/self/status') if ':\\t' "
      "in "
      "l)\n"
      "print(*(status[k] for k in ('CapInh','CapPrm','CapEff','CapBnd','CapAmb','NoNewPrivs',"
      "'Seccomp','Threads','Uid','Gid')))\n"
      "print(os.getppid(), os.getsid(0) == os.getpid(), os.uname().nodename)\n"
      "print(sorted(p for p in os.listdir('/proc') if p.isdigit()) == ['1', str(os.getpid())])\n"
      "print(open('/proc/net/dev').read().count(':'), os.listdir('/tmp'), os.listdir('/dev/shm'))\n"
      "import resource\n"
      "print([resource.getrlimit(r) for r in (resource.RLIMIT_CORE, resource.RLIMIT_NOFILE,"
      " resource.RLIMIT_FSIZE)])\n"
      "print(sorted(int(f) for f in os.listdir('/proc/self/fd'))[:3])\n"
      "print(open('/proc/self/oom_score_adj').read().strip())\n"
      "for path in ('/usr/x', '/var/task/x', '/x', '/var/runtime/x', '/opt/lambent/python/x'):\n"
      "  try: open(path, 'w'); print('wrote', path)\n"
      "  except OSError: pass\n"
      "print(open('/proc/self/cgroup').read())\n";
  const std::string forked = forked_output(code);
  LaunchPlan plain = plan(code);
  plain.zygote.reset();
  const std::string executed = run(plain).output;
  EXPECT_FALSE(forked_);
  EXPECT_THAT(forked, HasSubstr("0000000000000000 0000000000000000 0000000000000000"));
  EXPECT_THAT(forked, HasSubstr("True sandbox\nTrue\n"));
  // One filter more, which only has an exception.
  EXPECT_EQ(forked, executed);
}

TEST_F(ZygoteTest, AForkCannotEnterOrMakeNamespaces) {
  bring_up();
  const std::string output = forked_output(
      "import ctypes\n"
      "libc = ctypes.CDLL(None, use_errno=True)\n"
      "for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000):\n"
      "  print(libc.unshare(flag), ctypes.get_errno())\n"
      "for name in ('mnt', 'pid', 'user', 'net'):\n"
      "  for pid in ('self', '1'):\n"
      "    try: fd = os.open('/proc/%s/ns/%s' % (pid, name), os.O_RDONLY)\n"
      "    except OSError: continue\n"
      "    if libc.setns(fd, 0) == 0: print('entered', pid, name)\n"
      "print(libc.mount(b'x', b'/mnt', b'tmpfs', 0, None), libc.chroot(b'/tmp'))\n");
  EXPECT_EQ(output, "-1 1\n-1 1\n-1 1\n-1 1\n-1 -1\n");
}

TEST_F(ZygoteTest, ForksHaveTheirOwnVariablesFilesAndRandomNumbers) {
  bring_up("plain", {"random", "uuid"});
  std::set<std::string> seen;
  for (const char* name : {"one", "two"}) {
    LaunchPlan mine = plan(
        "import random\n"
        "print(sorted(k for k in os.environ if k.startswith('SECRET')), random.random(),"
        " os.urandom(4), os.path.exists('/tmp/left'), os.path.exists('/opt/own'))\n"
        "open('/tmp/left', 'w')");
    mine.zygote->argv.insert(mine.zygote->argv.end(), {"random", "uuid"});
    CodeFolder own;
    mine.binds.push_back({own.path(), "/opt/own"});
    mine.environment[std::string("SECRET_") + name] = "treasure";
    const Outcome outcome = run(mine);
    EXPECT_TRUE(forked_) << why_;
    EXPECT_THAT(outcome.output, HasSubstr(std::string("['SECRET_") + name + "']"));
    EXPECT_THAT(outcome.output, HasSubstr("False True"));
    seen.insert(outcome.output.substr(outcome.output.find(']')));
  }
  EXPECT_EQ(seen.size(), 2U);
}

TEST_F(ZygoteTest, TheFunctionsOwnModulesGoBeforeThoseThatAreLoaded) {
  packages_.write("mine.py", "OWNER = 'the package'");
  bring_up("modules", {"mine", "decimal"});
  LaunchPlan own = plan(
      "import mine, difflib, decimal, json\n"
      "print(mine.OWNER, difflib.OWNER, hasattr(decimal, 'OWNER'), hasattr(json, 'dumps'))",
      "modules", {"mine", "decimal"});
  codes_.back()->write("mine.py", "OWNER = 'the function'");
  codes_.back()->write("difflib.py", "OWNER = 'the function, too'");
  codes_.back()->write("decimal.txt", "no module");
  EXPECT_EQ(run(own).output, "the function the function, too False True\n");
  EXPECT_TRUE(forked_) << why_;
  EXPECT_EQ(run(plan("import mine; print(mine.OWNER)", "modules", {"mine", "decimal"})).output,
            "the package\n");
}

TEST_F(ZygoteTest, AForkIsHeldToTheLimitsOfItsOwnPlan) {
  bring_up();
  LaunchPlan greedy = plan("x = bytearray(200 << 20)");
  greedy.limits.memory = Bytes::mib(64);
  const Outcome memory = run(greedy);
  EXPECT_TRUE(forked_) << why_;
  EXPECT_TRUE(memory.exit->out_of_memory) << to_string(*memory.exit);
  LaunchPlan forking = plan(
      "n = 0\n"
      "try:\n"
      "  while True:\n"
      "    n += 1\n"
      "    if os.fork() == 0: import time; time.sleep(60)\n"
      "except OSError: print(n < 20)");
  forking.limits.processes = 10;
  EXPECT_EQ(run(forking).output, "True\n");
  EXPECT_TRUE(forked_) << why_;
  EXPECT_EQ(forked_output("import time; time.sleep(0)"), "") << "the zygote is not harmed";
}

TEST_F(ZygoteTest, AForkMayWriteLargerFilesThanItsZygoteIfItsPlanSaysSo) {
  bring_up();
  LaunchPlan large = plan("import resource; print(resource.getrlimit(resource.RLIMIT_FSIZE))");
  large.limits.scratch = Bytes::gib(1);
  large.limits.file_size = Bytes::gib(1);
  EXPECT_EQ(run(large).output, "(1073741824, 1073741824)\n");
  EXPECT_TRUE(forked_) << why_;
  EXPECT_EQ(forked_output("print('works')"), "works\n") << "the zygote is not harmed";
}

TEST_F(ZygoteTest, KillingAForkAndItsExitAreTold) {
  bring_up();
  LaunchPlan exits = plan("os._exit(7)");
  const Outcome outcome = run(exits);
  EXPECT_TRUE(forked_) << why_;
  EXPECT_EQ(outcome.exit->exit_code, 7);
  LaunchPlan sleeps = plan("print('up', flush=True); import time; time.sleep(60)");
  harness_.launch(sleeps);
  Outcome& slept = harness_.outcome(sleeps.sandbox);
  ASSERT_TRUE(harness_.wait([&] { return slept.output == "up\n"; }));
  harness_.launcher().kill(sleeps.sandbox);
  ASSERT_TRUE(harness_.wait([&] { return harness_.finished(sleeps.sandbox); }));
  EXPECT_TRUE(slept.exit->killed);
}

struct Hostile {
  const char* what;
  const char* code;
  const char* why;
};

class HostileZygoteTest : public ZygoteTest, public testing::WithParamInterface<Hostile> {};

TEST_P(HostileZygoteTest, IsRefusedAndItsSandboxesStartWithoutIt) {
  packages_.write("evil.py", GetParam().code);
  LaunchPlan first = plan("print('works')", "evil", {"evil"});
  EXPECT_EQ(run(first).output, "works\n");
  // Some load, and fail when a sandbox is forked.
  for (int round = 0; round < 3 && events_.empty(); ++round) {
    ASSERT_TRUE(harness_.wait([this] { return !events_.empty(); }));
  }
  ASSERT_TRUE(harness_.wait([this] { return events_.back() == ZygoteEvent::kFailed; }));
  EXPECT_THAT(why_, HasSubstr(GetParam().why));
  EXPECT_EQ(run(plan("print('still works')", "evil", {"evil"})).output, "still works\n");
  EXPECT_FALSE(forked_);
  bring_up("plain");
  EXPECT_EQ(events_.back(), ZygoteEvent::kReady) << "others have theirs";
}

INSTANTIATE_TEST_SUITE_P(
    Packages, HostileZygoteTest,
    testing::Values(
        Hostile{"Raises", "raise ValueError('no')", "ValueError: no"},
        Hostile{"IsNotThere", "import not_there", "not_there"},
        Hostile{"Exits", "import os; os._exit(3)", "exited with 3"},
        Hostile{"Crashes", "import os; os.kill(os.getpid(), 11)", "signal 11"},
        Hostile{"StartsAThread",
                "import threading, time\n"
                "threading.Thread(target=time.sleep, args=(60,), daemon=True, name='mine').start()",
                "starts threads: mine"},
        Hostile{"SharesMemory", "import mmap; m = mmap.mmap(-1, 4096)", "shares memory"},
        Hostile{"EatsMemory",
                "x = []\n"
                "while True: x.append(bytearray(256 << 20))",
                "signal 9"},
        Hostile{"KeepsADescriptor",
                "import os, socket\n"
                "a, b = socket.socketpair()\n"
                "os.closerange = lambda *ignored: None",
                "kept descriptors"},
        Hostile{"KeepsItsRights",
                "import lambent_runtime.zygote, sys\n"
                "sys.modules['__main__']._drop_capabilities = lambda libc: None",
                "it has rights"},
        Hostile{"StaysOutside",
                "import sys\n"
                "enter = sys.modules['__main__']._setns\n"
                "calls = [0]\n"
                "def some(libc, fd):\n"
                "  calls[0] += 1\n"
                "  if calls[0] != 6: enter(libc, fd)\n"
                "sys.modules['__main__']._setns = some",
                "another namespace"},
        Hostile{"BringsAnotherProcess",
                "import os, sys\n"
                "drop = sys.modules['__main__']._drop_capabilities\n"
                "def more(libc):\n"
                "  drop(libc)\n"
                "  if os.fork() == 0:\n"
                "    import time; time.sleep(60)\n"
                "sys.modules['__main__']._drop_capabilities = more",
                "another process"},
        Hostile{"LiesAboutItsNumber",
                "import os, sys\n"

                "os.getpid = lambda: 9999",
                "refused"},
        Hostile{"HangsWhenItForks",
                "import os, time, sys\n"
                "become = sys.modules['__main__']._become\n"
                "sys.modules['__main__']._become = lambda *ignored: time.sleep(100)",
                "hangs"}),
    [](const auto& info) { return info.param.what; });

TEST_F(ZygoteTest, AForkThatDoesNotTakeItsPlanIsReplacedByAProgram) {
  for (const char* trick : {"time.sleep(100)", "(channel.recv(1 << 17), os._exit(0))"}) {
    packages_.write("evil.py",
                    "import os, sys, time\nsys.modules['__main__']._run = lambda channel: " +
                        std::string(trick));
    bring_up(trick, {"evil"});
    ASSERT_EQ(events_.back(), ZygoteEvent::kReady) << why_;
    EXPECT_EQ(run(plan("print('runs')", trick, {"evil"})).output, "runs\n");
    EXPECT_FALSE(forked_);
    EXPECT_EQ(events_.back(), ZygoteEvent::kFailed);
  }
}

TEST_F(ZygoteTest, APlanThatCannotBeHadCostsItsZygoteNothing) {
  bring_up();
  CodeFolder files;
  files.write("file", "");
  LaunchPlan impossible = plan("");
  // A folder below what is a file.
  impossible.binds.push_back({files.path() + "/file", "/opt/file"});
  impossible.binds.push_back({files.path(), "/opt/file/folder"});
  const Outcome outcome = harness_.run(impossible);
  ASSERT_TRUE(outcome.error.has_value());
  EXPECT_THAT(outcome.error->message, HasSubstr("/opt/file"));
  EXPECT_EQ(events_.back(), ZygoteEvent::kReady) << why_;
  EXPECT_EQ(forked_output("print('here')"), "here\n");
}

TEST_F(ZygoteTest, AForkHasItsNetworkWhateverRightsOthersHaveToTheDeviceFile) {
  if (!harness_.launcher().capabilities().network_reason.empty()) {
    GTEST_SKIP() << harness_.launcher().capabilities().network_reason;
  }
  bring_up();
  LaunchPlan connected = plan("import socket; print(sorted(n for _, n in socket.if_nameindex()))");
  connected.network =
      NetworkPlan{*parse_network_access("outbound"), *parse_network_bounds("public")};
  EXPECT_EQ(run(connected).output, "['lo', 'out']\n");
  EXPECT_TRUE(forked_) << why_;
  EXPECT_THAT(events_, Not(Contains(ZygoteEvent::kFailed))) << why_;
}

TEST_F(ZygoteTest, WhenItIsKilledItsSandboxesLiveOn) {
  bring_up();
  LaunchPlan lives = plan("print('up', flush=True); import time; time.sleep(1); print('done')");
  harness_.launch(lives);
  Outcome& outcome = harness_.outcome(lives.sandbox);
  ASSERT_TRUE(harness_.wait([&] { return outcome.output == "up\n"; }));
  int killed = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto line = read_file(entry.path().string() + "/cmdline", 4096);
    if (!line.ok() || line->find("lambent_runtime.zygote") == std::string::npos) continue;
    const auto status = read_file(entry.path().string() + "/status", 4096);
    // In two pid namespaces, ours and its own, where a fork is in a third, of this harness only.
    if (!status.ok() || !belongs_to_harness(*status)) continue;
    kill(atoi(entry.path().filename().c_str()), SIGKILL);
    ++killed;
  }
  EXPECT_EQ(killed, 1);
  ASSERT_TRUE(harness_.wait([&] { return events_.back() == ZygoteEvent::kFailed; }));
  // What is seen first: the end of the process, or that of its socket in a fork.
  EXPECT_THAT(why_, AnyOf(HasSubstr("signal 9"), HasSubstr("socket is gone")));
  ASSERT_TRUE(harness_.wait([&] { return harness_.finished(lives.sandbox); }));
  EXPECT_EQ(outcome.output, "up\ndone\n");
  EXPECT_EQ(run(plan("print('plain')")).output, "plain\n");
  EXPECT_FALSE(forked_);
}

}  // namespace
}  // namespace lambent::sandbox
