// What a program inside cannot see, reach or do.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>

#include "node/sandbox/testing/sandbox_test_support.h"

namespace lambent::sandbox {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class IsolationTest : public testing::Test {
 protected:
  Outcome run(const std::string& script) { return harness_.run(shell_plan(script)); }
  Harness harness_{test_options()};
};

TEST_F(IsolationTest, TheCodeIsReadOnly) {
  CodeFolder code;
  code.write("app.py", "print()\n", 0666);
  chmod(code.path().c_str(), 0777);
  LaunchPlan plan = shell_plan("cat app.py; echo x >> app.py; touch new; rm -f app.py; ls");
  plan.code = code.path();
  const Outcome outcome = harness_.run(plan);
  EXPECT_THAT(outcome.output, HasSubstr("print()"));
  EXPECT_THAT(outcome.output, HasSubstr("Read-only file system"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("new\n")));
  EXPECT_TRUE(std::filesystem::exists(code.path() + "/app.py"));
}

TEST_F(IsolationTest, OnlyTheScratchSpaceIsWritable) {
  const Outcome outcome =
      run("for place in / /usr /etc /var /opt /run /mnt /dev /proc /proc/sys/kernel; do"
          "  touch $place/x 2>/dev/null && echo wrote $place; done;"
          "touch /tmp/x && touch /dev/shm/x && echo scratch");
  EXPECT_EQ(outcome.output, "scratch\n");
}

TEST_F(IsolationTest, FilesOfTheHostAreNotThere) {
  CodeFolder secret;
  secret.write("secret", "treasure", 0644);
  const Outcome outcome = run("ls -a /; cat /etc/shadow " + secret.path() +
                              "/secret; ls /root /home /sys /boot; cat /etc/passwd");
  EXPECT_THAT(outcome.output, Not(HasSubstr("treasure")));
  EXPECT_THAT(outcome.output, HasSubstr("/etc/shadow: No such file"));
  EXPECT_THAT(outcome.output, HasSubstr("'/root': No such file"));
  EXPECT_THAT(outcome.output, HasSubstr("'/home': No such file"));
  EXPECT_THAT(outcome.output, HasSubstr("'/sys': No such file"));
}

TEST_F(IsolationTest, BindsShowWhatThePlanSaysAndNoMore) {
  CodeFolder shown;
  shown.write("note", "read me\n", 0666);
  CodeFolder shared;
  const std::string ledger = shared.write("ledger", "", 0666);
  LaunchPlan plan = shell_plan(
      "cat /opt/layer/note; echo x >> /opt/layer/note; echo entry >> /run/lambent/ledger;"
      "touch /run/lambent/other");
  plan.binds = {{shown.path(), "/opt/layer", false}, {ledger, "/run/lambent/ledger", true}};
  const Outcome outcome = harness_.run(plan);
  EXPECT_THAT(outcome.output, HasSubstr("read me"));
  EXPECT_THAT(outcome.output, HasSubstr("/opt/layer/note: Read-only file system"));
  EXPECT_EQ(read_file(ledger, 100).value(), "entry\n");
  EXPECT_EQ(read_file(shown.path() + "/note", 100).value(), "read me\n");
}

TEST_F(IsolationTest, FilesOfSecretsLieInMemoryOfTheSandboxAndAreReadOnly) {
  LaunchPlan plan = shell_plan(
      "cd /run/secrets; cat key; wc -c < large; stat -f -c %T .; ls -l | tail -n +2 | cut -c1-10;"
      "touch new; echo x > key; rm -f key; mount -o remount,rw . ; cat key");
  plan.secret_files = {{"key", "treasure\n"}, {"large", std::string(300'000, 'x')}};
  const Outcome outcome = harness_.run(plan);
  EXPECT_THAT(outcome.output, StartsWith("treasure\n300000\nramfs\n-r--r--r--\n-r--r--r--\n"));
  EXPECT_THAT(outcome.output, HasSubstr("'new': Read-only file system"));
  EXPECT_THAT(outcome.output, EndsWith("treasure\n"));
}

// The tree of an image: this machine's shell with its libraries, and what a plan of it says.
class ImageFolder {
 public:
  ImageFolder() {
    namespace fs = std::filesystem;
    root_ = std::filesystem::path(folder_.path()) / "root";
    for (const char* name : {"bin", "etc", "lib64"}) fs::create_directories(root_ / name);
    fs::copy_file("/bin/sh", root_ / "bin/sh");
    fs::copy_file("/lib64/ld-linux-x86-64.so.2", root_ / "lib64/ld-linux-x86-64.so.2");
    fs::create_directories(root_ / "lib/x86_64-linux-gnu");
    fs::copy_file("/lib/x86_64-linux-gnu/libc.so.6", root_ / "lib/x86_64-linux-gnu/libc.so.6");
    folder_.write("root/etc/name", "image\n", 0644);
    // As umoci leaves it: all of it is the user's who will run in it.
    for (const auto& entry : fs::recursive_directory_iterator(root_)) give(entry.path());
    give(root_);
  }

  LaunchPlan plan(const std::string& script) const {
    LaunchPlan plan = shell_plan(script);
    plan.argv = {"/bin/sh", "-c", script};
    plan.working_directory = "/srv/made";
    plan.image = {.host_path = root_, .user = 1234};
    return plan;
  }
  const std::filesystem::path& root() const { return root_; }

 private:
  static void give(const std::filesystem::path& path) {
    if (geteuid() == 0) (void)!lchown(path.c_str(), kNobodyInside, kNobodyInside);
  }

  CodeFolder folder_;
  std::filesystem::path root_;
};

TEST_F(IsolationTest, AnImageIsTheRootAndTheHostIsNotThere) {
  const ImageFolder image;
  const Outcome outcome = harness_.run(
      image.plan("read name < /etc/name; echo $name; pwd; echo /*; [ -e /usr ] && echo host;"
                 "read inside outside count < /proc/self/uid_map; echo user $inside of $count"));
  ASSERT_FALSE(outcome.error) << outcome.error->message;
  EXPECT_THAT(outcome.output, HasSubstr("image\n/srv/made\n"));
  EXPECT_THAT(outcome.output, HasSubstr("/bin /dev /etc /lib /lib64 /proc /srv /tmp\n"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("host")));
  EXPECT_THAT(outcome.output, HasSubstr("user 1234 of 1\n"));
}

TEST_F(IsolationTest, WhatAProgramWritesToItsImageIsItsOwn) {
  const ImageFolder image;
  const LaunchPlan plan = image.plan(
      "for place in /etc/new /new /tmp/new /etc/name; do"
      "  echo x > $place && echo wrote $place; done;"
      "for place in /dev/new /proc/new /proc/sys/kernel/hostname; do"
      "  echo x > $place && echo wrote $place; done; [ -c /dev/null ] && echo null");
  for (int i = 0; i < 2; ++i) {
    const Outcome outcome = harness_.run(plan);
    ASSERT_FALSE(outcome.error) << outcome.error->message;
    for (const char* place : {"/etc/new", "/new", "/tmp/new", "/etc/name"}) {
      EXPECT_THAT(outcome.output, HasSubstr("wrote " + std::string(place) + "\n"));
    }
    EXPECT_THAT(outcome.output, Not(HasSubstr("wrote /dev")));
    EXPECT_THAT(outcome.output, Not(HasSubstr("wrote /proc")));
    EXPECT_THAT(outcome.output, HasSubstr("null\n"));
  }
  EXPECT_FALSE(std::filesystem::exists(image.root() / "new"));
  EXPECT_EQ(read_file(image.root() / "etc/name", 100).value(), "image\n");
}

TEST_F(IsolationTest, BindsAreShownInAnImageToo) {
  const ImageFolder image;
  CodeFolder shown;
  shown.write("note", "read me\n", 0644);
  LaunchPlan plan =
      image.plan("read note < /opt/layer/note; echo $note; echo x > /opt/layer/note; echo over");
  plan.binds = {{shown.path(), "/opt/layer", false}};
  const Outcome outcome = harness_.run(plan);
  ASSERT_FALSE(outcome.error) << outcome.error->message;
  EXPECT_THAT(outcome.output, HasSubstr("read me\n"));
  EXPECT_THAT(outcome.output, HasSubstr("Read-only file system"));
  EXPECT_EQ(read_file(shown.path() + "/note", 100).value(), "read me\n");
}

TEST_F(IsolationTest, AnImageWithoutTheProgramSaysWhichIsMissing) {
  const ImageFolder image;
  LaunchPlan plan = image.plan("");
  plan.argv = {"/bin/missing"};
  const Outcome outcome = harness_.run(plan);
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code, ErrorCode::kNotFound);
  EXPECT_THAT(outcome.error->message, HasSubstr("/bin/missing"));
}

// A mount that others than the worker can change.
TEST_F(IsolationTest, AMountThatMayHaveNoLinksIsNotShownThroughOne) {
  CodeFolder shown;
  std::filesystem::create_directory(shown.path() + "/models");
  shown.write("models/note", "read me\n", 0644);
  const std::string real = std::filesystem::canonical(shown.path());
  LaunchPlan plan = shell_plan("cat /weights/note; touch /weights/x; chmod 777 /weights/note");
  Bind mount{real + "/models", "/weights"};
  mount.without_links = true;
  plan.binds = {mount};
  const Outcome outcome = harness_.run(plan);
  EXPECT_THAT(outcome.output, HasSubstr("read me"));
  EXPECT_THAT(outcome.output, HasSubstr("'/weights/x': Read-only file system"));

  std::filesystem::rename(real + "/models", real + "/moved");
  std::filesystem::create_directory_symlink("/etc", real + "/models");
  const Outcome refused = harness_.run(plan);
  ASSERT_TRUE(refused.error.has_value());
  EXPECT_THAT(refused.error->message, HasSubstr(real + "/models"));
  std::filesystem::remove(real + "/models");
  const Outcome missing = harness_.run(plan);
  ASSERT_TRUE(missing.error.has_value());
  EXPECT_THAT(missing.error->message, HasSubstr("No such file"));
}

TEST_F(IsolationTest, SetUserIdBitsOfAMountDoNotWork) {
  CodeFolder shown;
  std::filesystem::copy_file("/usr/bin/id", shown.path() + "/id");
  if (chown((shown.path() + "/id").c_str(), 0, 0) != 0) GTEST_SKIP() << "not root";
  chmod((shown.path() + "/id").c_str(), 04755);
  LaunchPlan plan = shell_plan("/weights/id -u; id -u");
  plan.binds = {{shown.path(), "/weights"}};
  const std::string output = harness_.run(plan).output;
  const size_t half = output.size() / 2;
  EXPECT_EQ(output.substr(0, half), output.substr(half));
  EXPECT_NE(output.substr(0, half), "0\n");
}

TEST_F(IsolationTest, DevicesAreThereOnlyIfThePlanNamesThem) {
  if (access("/dev/ptmx", F_OK) != 0) GTEST_SKIP() << "no /dev/ptmx to show";
  const std::string script = "test -c /dev/ptmx && echo there";
  EXPECT_EQ(run(script).output, "");
  LaunchPlan plan = shell_plan(script);
  plan.devices = {{"/dev/ptmx", "/dev/ptmx"}};
  EXPECT_EQ(harness_.run(plan).output, "there\n");
}

// Nodes like /dev/null stand for those of a driver.
TEST_F(IsolationTest, ASandboxOpensTheDevicesOfItsPlanAndMakesNoOthers) {
  CodeFolder nodes;
  const auto make = [&](const char* name) {
    const std::string path = nodes.path() + "/" + name;
    return mknod(path.c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0 &&
           chmod(path.c_str(), 0666) == 0 && close(open(path.c_str(), O_RDWR | O_CLOEXEC)) == 0;
  };
  if (!make("nvidia0") || !make("nvidia1")) GTEST_SKIP() << "no device can be made here";
  LaunchPlan plan = shell_plan(
      "echo x > /dev/nvidia0 && echo own; cat /dev/nvidia-caps/nvidia-cap12 && echo cap;"
      "ls /dev/nvidia*; ls /dev/nvidia-caps;"
      "cat /opt/tree/nvidia1 && echo through a bind;"
      "mknod /tmp/nvidia1 c 1 3 && cat /tmp/nvidia1 && echo made;"
      "mknod /dev/shm/nvidia1 c 1 3 && cat /dev/shm/nvidia1 && echo made");
  plan.binds = {{nodes.path(), "/opt/tree", true}};
  plan.devices = {{nodes.path() + "/nvidia0", "/dev/nvidia0"},
                  {nodes.path() + "/nvidia0", "/dev/nvidia-caps/nvidia-cap12"}};
  const Outcome outcome = harness_.run(plan);
  EXPECT_THAT(outcome.output, HasSubstr("own\n"));
  EXPECT_THAT(outcome.output, HasSubstr("cap\n"));
  EXPECT_THAT(outcome.output, HasSubstr("/opt/tree/nvidia1: Permission denied"));
  EXPECT_THAT(outcome.output, HasSubstr("mknod: /tmp/nvidia1: Operation not permitted"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("through a bind")));
  EXPECT_THAT(outcome.output, Not(HasSubstr("made")));
  EXPECT_THAT(outcome.output, HasSubstr("/dev/nvidia0\n"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("/dev/nvidia1")));
}

TEST_F(IsolationTest, WhatIsNoDeviceIsNotShownAsOne) {
  CodeFolder folder;
  LaunchPlan plan = shell_plan("ls /dev/nvidia0");
  plan.devices = {{folder.path(), "/dev/nvidia0"}};
  const Outcome outcome = harness_.run(plan);
  ASSERT_TRUE(outcome.error.has_value());
  EXPECT_THAT(outcome.error->message, HasSubstr("no character device"));
}

TEST_F(IsolationTest, ALinkInTheCodeLeadsNowhere) {
  CodeFolder code;
  std::filesystem::create_symlink("/etc/shadow", code.path() + "/shadow");
  std::filesystem::create_symlink("/proc/1/root/etc/shadow", code.path() + "/through_init");
  LaunchPlan plan = shell_plan("cat shadow through_init");
  plan.code = code.path();
  const Outcome outcome = harness_.run(plan);
  EXPECT_NE(outcome.exit->exit_code, 0);
  EXPECT_THAT(outcome.output, Not(HasSubstr("root:")));
}

TEST_F(IsolationTest, ProcessesOfTheHostAreNotThere) {
  // Its init, the shell, and the two programs of the pipe.
  const Outcome outcome = run("ls /proc | grep -c '^[0-9]'");
  EXPECT_LE(atoi(outcome.output.c_str()), 4) << outcome.output;
  EXPECT_EQ(run("cat /proc/1/environ /proc/1/mem; ls /proc/1/fd /proc/1/root").exit->exit_code, 2);
}

TEST_F(IsolationTest, ThereIsNoWayOutOfTheNetwork) {
  const Outcome outcome = run("exec 3<>/dev/tcp/192.0.2.1/80");
  EXPECT_THAT(outcome.output, HasSubstr("Network is unreachable"));
  EXPECT_EQ(run("cat /proc/net/dev | grep -c :").output, "1\n");
}

TEST_F(IsolationTest, OneSandboxDoesNotReachTheNetworkOfAnother) {
  const LaunchPlan first = shell_plan("sleep 1000");
  harness_.launch(first);
  ASSERT_TRUE(harness_.wait([&] { return harness_.started(first.sandbox) != nullptr; }));
  const LaunchPlan second = shell_plan("exec 3<>/dev/tcp/127.0.0.1/9001 && echo connected");
  // Each connects to its own listener: the second's connection does not show up at the first.
  EXPECT_EQ(harness_.run(second).output, "connected\n");
  const int listener = harness_.started(first.sandbox)->runtime_api_listener.get();
  EXPECT_LT(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC), 0);
}

TEST_F(IsolationTest, NoRightIsLeft) {
  const Outcome outcome = run("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; id -u");
  EXPECT_THAT(outcome.output, HasSubstr("CapEff:\t0000000000000000"));
  EXPECT_THAT(outcome.output, HasSubstr("CapPrm:\t0000000000000000"));
  EXPECT_THAT(outcome.output, HasSubstr("CapBnd:\t0000000000000000"));
  EXPECT_THAT(outcome.output, HasSubstr("NoNewPrivs:\t1"));
  EXPECT_THAT(outcome.output, HasSubstr("Seccomp:\t2"));
  EXPECT_THAT(outcome.output, HasSubstr("\n65534\n"));
}

TEST_F(IsolationTest, NamespacesAndMountsCannotBeMade) {
  const Outcome outcome = run("unshare -U true; unshare -m true; mount -t tmpfs x /tmp");
  EXPECT_THAT(outcome.output, HasSubstr("unshare failed: Operation not permitted"));
  EXPECT_NE(outcome.exit->exit_code, 0);
}

TEST_F(IsolationTest, SystemCallsThatLeadOutAreRefused) {
  if (access("/usr/bin/python3", X_OK) != 0) GTEST_SKIP() << "no /usr/bin/python3";
  const LaunchPlan plan = program_plan(
      {"/usr/bin/python3", "-c",
       "import ctypes, errno, fcntl, socket\n"
       "libc = ctypes.CDLL(None, use_errno=True)\n"
       "def call(name, number, *arguments):\n"
       "    result = libc.syscall(number, *arguments)\n"
       "    print(name, errno.errorcode[ctypes.get_errno()] if result < 0 else 'ALLOWED')\n"
       "call('bpf', 321, 0, 0, 0)\n"
       "call('keyctl', 250, 0, -3, 0)\n"
       "call('ptrace', 101, 0, 0, 0, 0)\n"
       "call('io_uring', 425, 1, 0)\n"
       "call('clone', 56, ctypes.c_ulong(0x10000000), 0, 0, 0, 0)\n"
       "call('clone3', 435, 0, 0)\n"
       "for family in (40, 38, 17, (1 << 32) + 40):\n"
       "    call('socket', 41, ctypes.c_ulong(family), 1, 0)\n"
       "call('tiocsti', 16, 0, ctypes.c_ulong((1 << 32) + 0x5412), b'x')\n"
       "s = socket.socket(); socket.socketpair()\n"
       "try:\n"
       "    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\\1\\0\\0\\0\\1\\0\\0\\0')\n"
       "    print('lingers')\n"
       "except OSError as error: print('linger', errno.errorcode[error.errno])\n"
       "print('sockets work')\n"});
  EXPECT_EQ(harness_.run(plan).output,
            "bpf EPERM\nkeyctl EPERM\nptrace EPERM\nio_uring EPERM\nclone EPERM\nclone3 ENOSYS\n"
            "socket EAFNOSUPPORT\nsocket EAFNOSUPPORT\nsocket EAFNOSUPPORT\nsocket EAFNOSUPPORT\n"
            "tiocsti EPERM\nlinger EPERM\nsockets work\n");
}

TEST_F(IsolationTest, NoDescriptorLeaksIn) {
  EXPECT_EQ(run("ls /proc/self/fd | tr '\\n' ' '").output, "0 1 2 3 ");  // 3 is ls' own
}

TEST_F(IsolationTest, TheHostNameIsThePlans) {
  LaunchPlan plan = shell_plan("cat /proc/sys/kernel/hostname");
  plan.hostname = "f-17";
  EXPECT_EQ(harness_.run(plan).output, "f-17\n");
}

TEST_F(IsolationTest, AProgramFindsItsOwnHost) {
  EXPECT_EQ(run("grep -w $(cat /proc/sys/kernel/hostname) /etc/hosts").output,
            "127.0.0.1 localhost sandbox\n");
}

}  // namespace
}  // namespace lambent::sandbox
