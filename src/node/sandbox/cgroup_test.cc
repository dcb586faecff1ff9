#include "node/sandbox/cgroup.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "node/sandbox/syscalls.h"

namespace lambent::sandbox {
namespace {

TEST(CgroupTest, FoldersComeWithTheTreeAndGoWithIt) {
  std::string folder;
  {
    CgroupTree tree = CgroupTree::open("");
    Capabilities capabilities;
    tree.describe(capabilities);
    if (capabilities.cgroup == CgroupVersion::kNone) {
      GTEST_SKIP() << "no cgroups for us here: " << capabilities.cgroup_reason;
    }
    folder = capabilities.cgroup_folder;
    EXPECT_TRUE(std::filesystem::exists(folder));
    auto cgroup = tree.create(1);
    ASSERT_TRUE(cgroup.ok());
    EXPECT_TRUE(std::filesystem::exists(folder + "/1"));
    EXPECT_TRUE(cgroup->set_limits(SandboxLimits{}).ok());
    EXPECT_EQ(cgroup->oom_kills(), 0U);
    EXPECT_TRUE(cgroup->remove());
    EXPECT_FALSE(std::filesystem::exists(folder + "/1"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(CgroupTest, AFolderWithAProcessInsideStaysUntilItIsGone) {
  CgroupTree tree = CgroupTree::open("");
  auto cgroup = tree.create(7);
  ASSERT_TRUE(cgroup.ok());
  Capabilities capabilities;
  tree.describe(capabilities);
  if (capabilities.cgroup == CgroupVersion::kNone) GTEST_SKIP() << "no cgroups for us here";
  auto child = clone_process(0, cgroup->birth_folder());
  ASSERT_TRUE(child.ok());
  if (child->pid == 0) {
    if (!cgroup->enter().ok()) _exit(1);
    pause();
    _exit(0);
  }
  while (read_file(capabilities.cgroup_folder + "/7/cgroup.procs", 100).value().empty()) {
    ASSERT_EQ(waitpid(child->pid, nullptr, WNOHANG), 0);
  }
  EXPECT_FALSE(cgroup->remove());
  ::kill(child->pid, SIGKILL);
  waitpid(child->pid, nullptr, 0);
  EXPECT_TRUE(cgroup->remove());
}

TEST(CgroupTest, WhatADeadLauncherLeftIsSweptAndWhatALivingOneHoldsIsNot) {
  std::string folder;
  {
    Capabilities capabilities;
    const CgroupTree tree = CgroupTree::open("");
    tree.describe(capabilities);
    if (capabilities.cgroup == CgroupVersion::kNone) GTEST_SKIP() << "no cgroups for us here";
    folder = capabilities.cgroup_folder;
  }
  const std::string parent = std::filesystem::path(folder).parent_path();
  const std::string dead = parent + "/lambent-dead-" + std::to_string(getpid());
  const std::string living = parent + "/lambent-living-" + std::to_string(getpid());
  ASSERT_EQ(mkdir(living.c_str(), 0755), 0);
  const OwnedFd lock(::open(living.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);
  ASSERT_EQ(mkdir(dead.c_str(), 0755), 0);
  ASSERT_EQ(mkdir((dead + "/3").c_str(), 0755), 0);
  { const CgroupTree tree = CgroupTree::open(""); }
  EXPECT_FALSE(std::filesystem::exists(dead));
  EXPECT_TRUE(std::filesystem::exists(living));
  rmdir(living.c_str());
}

// Where this process is in the hierarchy of version 2: an ordinary user may write there only.
std::string own_v2_folder() {
  const auto groups = read_file("/proc/self/cgroup", 65536);
  if (!groups.ok()) return "";
  const size_t begin = groups->starts_with("0::") ? 0 : groups->find("\n0::");
  if (begin == std::string::npos) return "";
  const size_t path = groups->find('/', begin);
  std::string folder = groups->substr(path, groups->find('\n', path) - path);
  return folder == "/" ? "" : folder;
}

// The v2 way in, on whatever v2 hierarchy there is, with or without controllers of use.
TEST(CgroupTest, AProcessCanBeBornIntoAV2Folder) {
  std::string root;
  for (const char* candidate : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    if (access((std::string(candidate) + "/cgroup.controllers").c_str(), R_OK) == 0) {
      root = candidate;
    }
  }
  const std::string name = "/lambent-born-" + std::to_string(getpid());
  std::string folder = root + own_v2_folder() + name;
  bool is_made = !root.empty() && mkdir(folder.c_str(), 0755) == 0;
  if (!root.empty() && !is_made) {
    folder = root + name;
    is_made = mkdir(folder.c_str(), 0755) == 0;
  }
  if (!is_made) GTEST_SKIP() << "no writable v2 here";
  {
    // Locked, so that no launcher that starts meanwhile takes it for an orphan's.
    const OwnedFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    flock(fd.get(), LOCK_EX);
    auto child = clone_process(0, fd.get());
    ASSERT_TRUE(child.ok()) << child.error().message;
    if (child->pid == 0) {
      const auto text = read_file("/proc/self/cgroup", 65536);
      _exit(text.ok() && text->find("/lambent-born-") != std::string::npos ? 0 : 1);
    }
    int status = 0;
    waitpid(child->pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(rmdir(folder.c_str()), 0);
}

TEST(CapabilitiesTest, EveryWeakerLimitIsSaid) {
  Capabilities all;
  all.root = all.user_namespaces = all.memory_cgroup = all.pids_cgroup = all.cpu_cgroup = true;
  EXPECT_TRUE(weaker_limits(all).empty());
  EXPECT_EQ(weaker_limits(Capabilities{}).size(), 4U);
  all.same_user_reason = "drop the groups: no";
  ASSERT_EQ(weaker_limits(all).size(), 1U);
  EXPECT_NE(weaker_limits(all)[0].find("own user, with its groups (drop the groups: no)"),
            std::string::npos);
  Capabilities none;
  none.impossible = "no namespaces";
  EXPECT_NE(to_string(none).find("impossible: no namespaces"), std::string::npos);
}

}  // namespace
}  // namespace lambent::sandbox
