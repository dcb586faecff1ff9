#include "node/worker/storage_watch.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <mutex>
#include <vector>

#include "core/base/testing/testing.h"

namespace lambent::worker {
namespace {

// A disk that is as full as the test says, asked by the thread of the watch.
class StorageWatchTest : public testing::Test {
 protected:
  SpaceReading read(bool write) {
    const std::lock_guard lock(mutex);
    ++looks;
    writes += write ? 1 : 0;
    SpaceReading reading{.free = free, .refused = {}};
    if (write && refuses) reading.refused = Error{ErrorCode::kStorageFull, "write: no space"};
    return reading;
  }
  void set(Bytes now_free, bool now_refuses) {
    const std::lock_guard lock(mutex);
    free = now_free;
    refuses = now_refuses;
  }
  int looked() {
    const std::lock_guard lock(mutex);
    return looks;
  }
  int wrote() {
    const std::lock_guard lock(mutex);
    return writes;
  }
  // Turns the loop until the watch has looked once more and told.
  void await_look() {
    const int before = looked();
    // What was found of the look before may still be on its way: its timer begins only then.
    for (int i = 0; i < 5000 && looked() == before; ++i) {
      clock.advance(milliseconds(100));
      loop.run_once(milliseconds(1));
    }
    ASSERT_GT(looked(), before);
    for (int i = 0; i < 20; ++i) loop.run_once(milliseconds(1));
  }

  FakeClock clock;
  loop::EventLoop loop{clock};
  NullLogSink log;
  std::mutex mutex;
  Bytes free = Bytes::gib(1);
  bool refuses = false;
  int looks = 0;
  int writes = 0;
};

TEST_F(StorageWatchTest, ADiskWithoutSpaceIsFullUntilThereIsSomeAgain) {
  StorageWatch watch(loop, log, "/state", [this](bool write) { return read(write); });
  await_look();
  EXPECT_FALSE(watch.full().has_value());
  EXPECT_EQ(watch.free(), Bytes::gib(1));
  EXPECT_EQ(wrote(), 0) << "a disk without a suspicion is only asked";
  set(Bytes::mib(1), false);
  await_look();
  ASSERT_TRUE(watch.full().has_value());
  EXPECT_EQ(watch.full()->code, ErrorCode::kStorageFull);
  EXPECT_NE(watch.full()->message.find("/state"), std::string::npos);
  EXPECT_NE(watch.full()->message.find("1 MiB"), std::string::npos);
  set(Bytes::mib(100), false);
  await_look();
  EXPECT_FALSE(watch.full().has_value());
  EXPECT_GE(wrote(), 1) << "only a write shows that it is well again";
}

TEST_F(StorageWatchTest, AQuotaThatOnlyAWriteShowsMakesItFullWhenAWriteFailed) {
  StorageWatch watch(loop, log, "/state", [this](bool write) { return read(write); });
  set(Bytes::gib(1), true);
  await_look();
  EXPECT_FALSE(watch.full().has_value());
  watch.suspect();
  for (int i = 0; i < 5000 && wrote() == 0; ++i) loop.run_once(milliseconds(1));
  await_look();
  EXPECT_TRUE(watch.full().has_value());
  await_look();
  EXPECT_TRUE(watch.full().has_value()) << "it is tried again, and still refuses";
  set(Bytes::gib(1), false);
  await_look();
  EXPECT_FALSE(watch.full().has_value());
}

TEST(ReadSpace, ARealDiskIsToldFromAFullOne) {
  const TemporaryFolder folder;
  const std::string disk = folder / "disk";
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mkdir(disk.c_str(), 0700) != 0 ||
      ::mount("lambent-test", disk.c_str(), "tmpfs", 0, "size=32m") != 0) {
    GTEST_SKIP() << "may not mount a file system here";
  }
  const SpaceReading empty = read_space(disk, true);
  EXPECT_GT(empty.free, Bytes::mib(30));
  EXPECT_FALSE(empty.refused.has_value());
  std::ofstream(disk + "/filler") << std::string(Bytes::mib(27).count, 'x');
  const SpaceReading full = read_space(disk, true);
  EXPECT_LT(full.free, StorageWatch::kLeastSpace);
  ::unlink((disk + "/filler").c_str());
  EXPECT_FALSE(read_space(disk, true).refused.has_value());
  EXPECT_GT(read_space(disk, false).free, Bytes::mib(30)) << "what was written is gone";
  ::umount2(disk.c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace lambent::worker
