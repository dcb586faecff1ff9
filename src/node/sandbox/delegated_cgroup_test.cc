#include "node/sandbox/delegated_cgroup.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "core/base/testing/testing.h"

namespace lambent::sandbox {
namespace {

namespace fs = std::filesystem;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A process that lies there until the end of its scope; a child of ours.
class Child {
 public:
  Child() : pid_(fork()) {
    if (pid_ == 0) {
      pause();
      _exit(0);
    }
  }
  Child(const Child&) = delete;
  ~Child() {
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

// Folders and files as the kernel shows a cgroup, with its rules for what is written into them:
// 'cpu' and 'pids' can be handed down beside processes, but then no process can be moved below, and
// 'memory' cannot.
class DelegatedCgroupTest : public testing::Test {
 protected:
  DelegatedCgroupTest() { make(folder()); }

  std::string folder() const { return root_.path() + "/service"; }
  std::string supervisor() const { return folder() + "/supervisor"; }

  static void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

  static void make(const std::string& cgroup) {
    fs::create_directories(cgroup);
    put(cgroup + "/cgroup.controllers", "cpu memory pids\n");
    put(cgroup + "/cgroup.type", "domain\n");
    for (const char* file : {"/cgroup.procs", "/cgroup.subtree_control"}) put(cgroup + file, "");
  }

  void place(pid_t pid) {
    processes_[folder()].insert(std::to_string(pid));
    show();
  }

  DelegatedCgroup open(const std::string& own) {
    return {own, getpid(), [this](const std::string& path, std::string_view text) {
              const std::string cgroup = fs::path(path).parent_path();
              const int error = path.ends_with("/cgroup.procs") ? move(cgroup, std::string(text))
                                                                : control(cgroup, text);
              show();
              return error;
            }};
  }

  std::set<std::string> in(const std::string& cgroup) { return processes_[cgroup]; }
  std::string handed_down() { return text_of(folder() + "/cgroup.subtree_control"); }

  std::set<std::string> controls_ = {};  // of folder()
  std::string starts_;                   // beside the first process that is moved

 private:
  int move(const std::string& cgroup, const std::string& pid) {
    if (!controls_.empty() && !processes_[folder()].empty()) return EOPNOTSUPP;
    if (processes_[folder()].erase(pid) == 0) return ESRCH;
    processes_[cgroup].insert(pid);
    if (!starts_.empty()) processes_[folder()].insert(std::exchange(starts_, ""));
    return 0;
  }

  int control(const std::string& cgroup, std::string_view text) {
    if (cgroup != folder()) return EINVAL;
    const std::string controller(text.substr(1));
    const bool is_beside_processes = !processes_[folder()].empty();
    if (text[0] == '+' && controller == "memory" && is_beside_processes) {
      return controls_.empty() ? EBUSY : EOPNOTSUPP;
    }
    if (text[0] == '+') {
      controls_.insert(controller);
    } else {
      controls_.erase(controller);
    }
    return 0;
  }

  void show() {
    for (const auto& [cgroup, processes] : processes_) {
      std::string text;
      for (const std::string& each : processes) text += each + "\n";
      put(cgroup + "/cgroup.procs", text);
    }
    std::string text;
    for (const std::string& each : controls_) text += (text.empty() ? "" : " ") + each;
    put(folder() + "/cgroup.subtree_control", text + "\n");
  }

  TemporaryFolder root_;
  std::map<std::string, std::set<std::string>> processes_;
};

TEST_F(DelegatedCgroupTest, AnEmptyOneIsDividedAsItIs) {
  DelegatedCgroup cgroup = open(folder());
  for (const char* controller : {"memory", "pids", "cpu"}) {
    EXPECT_TRUE(cgroup.hand_down(controller).ok());
  }
  EXPECT_EQ(handed_down(), "cpu memory pids\n");
  EXPECT_FALSE(fs::exists(supervisor()));
}

TEST_F(DelegatedCgroupTest, TheWorkerAndAllThatItStartedAreMovedOutOfTheWay) {
  const Child child;
  place(getpid());
  place(child.pid());
  DelegatedCgroup cgroup = open(folder());
  const auto handed = cgroup.hand_down("memory");
  ASSERT_TRUE(handed.ok()) << handed.error().message;
  EXPECT_TRUE(in(folder()).empty());
  EXPECT_EQ(in(supervisor()), (std::set{std::to_string(getpid()), std::to_string(child.pid())}));
  EXPECT_EQ(handed_down(), "memory\n");
}

// The kernel would hand it down beside them, and then hold no sandbox to it.
TEST_F(DelegatedCgroupTest, TheyAreMovedForEveryController) {
  for (const char* controller : {"pids", "cpu"}) {
    place(getpid());
    DelegatedCgroup cgroup = open(folder());
    const auto handed = cgroup.hand_down(controller);
    ASSERT_TRUE(handed.ok()) << handed.error().message;
    EXPECT_TRUE(in(folder()).empty());
    EXPECT_EQ(handed_down(), std::string(controller) + "\n");
    controls_.clear();
  }
}

// So did launchers before this: an upgrade of the worker meets it.
TEST_F(DelegatedCgroupTest, WhatWasHandedDownBesideProcessesIsTakenBackFirst) {
  controls_ = {"cpu", "pids"};
  place(getpid());
  DelegatedCgroup cgroup = open(folder());
  for (const char* controller : {"memory", "pids", "cpu"}) {
    const auto handed = cgroup.hand_down(controller);
    ASSERT_TRUE(handed.ok()) << handed.error().message;
  }
  EXPECT_EQ(in(supervisor()), std::set{std::to_string(getpid())});
  EXPECT_EQ(handed_down(), "cpu memory pids\n");
}

TEST_F(DelegatedCgroupTest, WhatIsStartedMeanwhileIsMovedToo) {
  const Child child;
  place(getpid());
  starts_ = std::to_string(child.pid());
  DelegatedCgroup cgroup = open(folder());
  const auto handed = cgroup.hand_down("memory");
  ASSERT_TRUE(handed.ok()) << handed.error().message;
  EXPECT_TRUE(in(folder()).empty());
  EXPECT_EQ(in(supervisor()).size(), 2U);
}

// The launcher of the next program of the worker starts where the first one's move left the worker.
TEST_F(DelegatedCgroupTest, OnceMovedTheCgroupAboveIsDivided) {
  place(getpid());
  ASSERT_TRUE(open(folder()).hand_down("memory").ok());
  DelegatedCgroup next = open(supervisor());
  EXPECT_EQ(next.folder(), folder());
  EXPECT_TRUE(next.hand_down("memory").ok());
  EXPECT_TRUE(next.hand_down("pids").ok());
  EXPECT_FALSE(fs::exists(supervisor() + "/supervisor"));
  EXPECT_EQ(in(supervisor()), std::set{std::to_string(getpid())});
}

TEST_F(DelegatedCgroupTest, AnothersCgroupOfThatNameIsDividedItself) {
  make(supervisor());
  fs::remove(folder() + "/cgroup.subtree_control");
  EXPECT_EQ(open(supervisor()).folder(), supervisor());
}

TEST_F(DelegatedCgroupTest, AProcessOfSomethingElseStaysAndIsNamed) {
  place(getpid());
  place(getppid());
  DelegatedCgroup cgroup = open(folder());
  const auto handed = cgroup.hand_down("memory");
  ASSERT_FALSE(handed.ok());
  EXPECT_NE(handed.error().message.find("process " + std::to_string(getppid()) + " ("),
            std::string::npos)
      << handed.error().message;
  EXPECT_NE(handed.error().message.find(folder()), std::string::npos);
  EXPECT_EQ(in(folder()).size(), 2U);  // none is moved
}

TEST_F(DelegatedCgroupTest, AControllerThatIsNotThereIsNamed) {
  put(folder() + "/cgroup.controllers", "cpu pids\n");
  DelegatedCgroup cgroup = open(folder());
  EXPECT_TRUE(cgroup.offers("pids"));
  EXPECT_FALSE(cgroup.offers("memory"));
  const auto handed = cgroup.hand_down("memory");
  ASSERT_FALSE(handed.ok());
  EXPECT_EQ(handed.error().message, "the cgroup " + folder() + " has no controller 'memory'");
}

// The kernel itself, with whatever controller of version 2 this machine has.
TEST(DelegatedCgroupOfTheKernelTest, HandsDownAfterTheMoveAndFromTheSupervisorsToo) {
  std::string root;
  for (const char* candidate : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    if (access((std::string(candidate) + "/cgroup.controllers").c_str(), R_OK) == 0) {
      root = candidate;
    }
  }
  std::istringstream offered(text_of(root + "/cgroup.controllers"));
  std::string controller;
  if (root.empty() || !(offered >> controller)) GTEST_SKIP() << "no controller of version 2 here";
  const std::string service = root + "/delegated-" + std::to_string(getpid());
  if (!std::ofstream(root + "/cgroup.subtree_control").is_open() ||
      mkdir(service.c_str(), 0755) != 0) {
    GTEST_SKIP() << "no writable " << root;
  }
  std::ofstream(root + "/cgroup.subtree_control") << "+" << controller << std::flush;
  {
    const Child worker;
    const Child other;
    for (const pid_t each : {worker.pid(), other.pid()}) {
      std::ofstream(service + "/cgroup.procs") << each << std::flush;
    }
    const auto refused = DelegatedCgroup(service, worker.pid()).hand_down(controller);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find(std::to_string(other.pid())), std::string::npos)
        << refused.error().message;
    std::ofstream(root + "/cgroup.procs") << other.pid() << std::flush;
    const auto handed = DelegatedCgroup(service, worker.pid()).hand_down(controller);
    EXPECT_TRUE(handed.ok()) << handed.error().message;
    EXPECT_EQ(text_of(service + "/cgroup.subtree_control"), controller + "\n");
    EXPECT_EQ(text_of(service + "/supervisor/cgroup.procs"), std::to_string(worker.pid()) + "\n");
    const DelegatedCgroup next(service + "/supervisor", worker.pid());
    EXPECT_EQ(next.folder(), service);
  }
  for (const std::string& each : {service + "/supervisor", service}) {
    while (rmdir(each.c_str()) != 0 && errno == EBUSY) usleep(1000);
  }
}

}  // namespace
}  // namespace lambent::sandbox
