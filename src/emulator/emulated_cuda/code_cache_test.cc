#include "emulator/emulated_cuda/code_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

namespace lambent::emulated_cuda {
namespace {

namespace fs = std::filesystem;

class CodeCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/code_cache_test.XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    parent_ = name;
    folder_ = parent_ + "/a/cache";
  }
  void TearDown() override { fs::remove_all(parent_); }

  static std::vector<char> code(char fill, size_t bytes = 1000) {
    return std::vector<char>(bytes, fill);
  }
  std::vector<fs::path> entries() const {
    std::vector<fs::path> found;
    for (const auto& each : fs::directory_iterator(folder_)) {
      if (each.path().extension() == ".code") found.push_back(each.path());
    }
    return found;
  }

  std::string parent_, folder_;
};

TEST_F(CodeCacheTest, CodeIsFoundByTheKeyUnderWhichItWasKept) {
  CodeCache(folder_, 1 << 20).keep("one", code('1'));
  const CodeCache cache(folder_, 1 << 20);
  ASSERT_TRUE(cache.is_usable());
  EXPECT_EQ(cache.find("one"), code('1'));
  EXPECT_EQ(cache.find("On"), std::nullopt);
  cache.keep("one", code('2', 0));
  EXPECT_EQ(cache.find("one"), code('2', 0));
}

TEST_F(CodeCacheTest, DamagedEntriesAreNotFound) {
  const CodeCache cache(folder_, 1 << 20);
  const std::string key = "key of some length";
  cache.keep(key, code('x'));
  const fs::path path = entries().at(0);
  const auto bytes = fs::file_size(path);
  // A bit of the code, of the key and of what stands behind them; and every shorter file.
  for (const size_t at : {size_t{5}, size_t{1003}, size_t{1020}, size_t{bytes - 1}}) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<long>(at));
    const char was = static_cast<char>(file.get());
    file.seekp(static_cast<long>(at));
    file.put(static_cast<char>(was ^ 1));
    file.close();
    EXPECT_EQ(cache.find(key), std::nullopt) << at;
    cache.keep(key, code('x'));
  }
  for (size_t left = 0; left < bytes; left += 13) {
    fs::resize_file(path, left);
    EXPECT_EQ(cache.find(key), std::nullopt) << left;
  }
}

TEST_F(CodeCacheTest, WhatWasNotUsedForTheLongestTimeGoesFirst) {
  const CodeCache cache(folder_, 3500);
  for (const char* key : {"a", "b", "c"}) {
    cache.keep(key, code(*key));
    // Times of files are as coarse as the kernel's tick.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ASSERT_TRUE(cache.find("a").has_value());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  cache.keep("d", code('d'));
  EXPECT_TRUE(cache.find("a").has_value());
  EXPECT_FALSE(cache.find("b").has_value());
  EXPECT_TRUE(cache.find("c").has_value());
  EXPECT_TRUE(cache.find("d").has_value());
  cache.keep("e", code('e', 4000));
  EXPECT_FALSE(cache.find("e").has_value()) << "larger than all";
  EXPECT_EQ(entries().size(), 3u);
}

TEST_F(CodeCacheTest, WhatEndedProcessesLeftGoesWhenItIsOld) {
  const CodeCache cache(folder_, 1 << 20);
  for (const char* name : {"work-old", "work-new"}) fs::create_directories(folder_ + "/" + name);
  for (const char* name : {"new-old", "turn-old"}) std::ofstream(folder_ + "/" + name) << "half";
  for (const char* name : {"work-old", "new-old", "turn-old"}) {
    fs::last_write_time(folder_ + "/" + name,
                        fs::file_time_type::clock::now() - std::chrono::hours(2));
  }
  cache.keep("one", code('1'));
  EXPECT_FALSE(fs::exists(folder_ + "/work-old"));
  EXPECT_FALSE(fs::exists(folder_ + "/new-old"));
  EXPECT_FALSE(fs::exists(folder_ + "/turn-old"));
  EXPECT_TRUE(fs::exists(folder_ + "/work-new"));
}

TEST_F(CodeCacheTest, AFolderInWhichOthersCanWriteIsNotUsed) {
  fs::create_directories(folder_);
  chmod(folder_.c_str(), 0777);
  EXPECT_FALSE(CodeCache(folder_, 1 << 20).is_usable());
  fs::remove(folder_);
  fs::create_directories(parent_ + "/other");
  fs::create_symlink(parent_ + "/other", folder_);
  const CodeCache cache(folder_, 1 << 20);
  EXPECT_FALSE(cache.is_usable());
  cache.keep("one", code('1'));
  EXPECT_EQ(cache.find("one"), std::nullopt);
  EXPECT_NE(cache.why_not(), "");
  EXPECT_FALSE(CodeCache("", 1 << 20).is_usable());
  EXPECT_EQ(CodeCache("", 1 << 20).why_not(), "") << "none is wanted";
  EXPECT_FALSE(CodeCache("/proc/nothing", 1 << 20).is_usable());
}

// There others could put a folder of theirs in its place, but for those with the sticky bit (/tmp).
TEST_F(CodeCacheTest, AFolderThatOthersCanReplaceIsNotUsed) {
  CodeCache(folder_, 1 << 20).keep("one", code('1'));
  const std::string parent = parent_ + "/a";
  for (const mode_t mode : {0777, 0775, 0757}) {
    chmod(parent.c_str(), mode);
    const CodeCache cache(folder_, 1 << 20);
    EXPECT_FALSE(cache.is_usable()) << mode;
    EXPECT_NE(cache.why_not().find(parent), std::string::npos) << cache.why_not();
    EXPECT_EQ(cache.find("one"), std::nullopt);
  }
  chmod(parent.c_str(), 01777);
  const CodeCache cache(folder_, 1 << 20);
  EXPECT_TRUE(cache.find("one").has_value());
  EXPECT_EQ(cache.why_not(), "");
}

// Whatever new files of this user may be like.
TEST_F(CodeCacheTest, FoldersThatAreMadeAreThisUsersAlone) {
  const mode_t before = umask(0);
  EXPECT_TRUE(CodeCache(folder_, 1 << 20).is_usable());
  umask(before);
}

// Nor an entry that another user could have put there.
TEST_F(CodeCacheTest, AnEntryInWhichOthersCanWriteIsNotFound) {
  const CodeCache cache(folder_, 1 << 20);
  cache.keep("one", code('1'));
  const fs::path path = entries().at(0);
  chmod(path.c_str(), 0666);
  EXPECT_EQ(cache.find("one"), std::nullopt);
  chmod(path.c_str(), 0600);
  EXPECT_TRUE(cache.find("one").has_value());
  fs::rename(path, parent_ + "/elsewhere");
  fs::create_symlink(parent_ + "/elsewhere", path);
  EXPECT_EQ(cache.find("one"), std::nullopt);
}

// How many descriptors of this process have a file in this folder whose name starts so.
size_t opened(const std::string& start) {
  size_t count = 0;
  for (const auto& each : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (fs::read_symlink(each.path(), gone).string().starts_with(start)) ++count;
  }
  return count;
}

TEST_F(CodeCacheTest, OneHasItsTurnAtATime) {
  const CodeCache cache(folder_, 1 << 20);
  const std::string turns = fs::canonical(folder_).string() + "/turn-";
  std::atomic<bool> has_it{false};
  std::thread other;
  {
    const CodeCache::Turn turn(cache, "key", 60);
    const CodeCache::Turn of_another_key(cache, "another key", 0);
    EXPECT_EQ(opened(turns), 2u) << "each key has a file";
    other = std::thread([&] {
      const CodeCache::Turn later(cache, "key", 60);
      has_it = true;
    });
    while (opened(turns) < 3) std::this_thread::yield();  // it tries
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    EXPECT_FALSE(has_it);
  }
  other.join();
  EXPECT_TRUE(has_it);
  EXPECT_EQ(opened(turns), 0u);
  EXPECT_TRUE(fs::is_empty(folder_)) << "the files go with the turns";
}

TEST_F(CodeCacheTest, OneThatWaitsTooLongForItsTurnGoesOn) {
  const CodeCache cache(folder_, 1 << 20);
  const CodeCache::Turn first(cache, "key", 60);
  { const CodeCache::Turn second(cache, "key", 0); }
  EXPECT_FALSE(fs::is_empty(folder_)) << "the turn is still the first one's";
}

}  // namespace
}  // namespace lambent::emulated_cuda
