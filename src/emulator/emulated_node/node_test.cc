#include "emulator/emulated_node/node.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "emulator/emulated_node/byte_locks.h"

namespace lambent::emulated_node {
namespace {

class NodeFile : public testing::Test {
 protected:
  NodeFile() : path(testing::TempDir() + "/node_test_" + std::to_string(getpid())) {
    unlink(path.c_str());
  }
  ~NodeFile() override { unlink(path.c_str()); }
  std::unique_ptr<Node> open() { return Node::open(path, "tiny", &error); }

  std::string path, error;
};

TEST_F(NodeFile, IsMadeByTheFirstAndSharedByTheSecond) {
  auto first = open(), second = open();
  ASSERT_TRUE(first && second) << error;
  uint32_t row = first->claim_row();
  { Node::Guard(*first)->rows[row].bytes[0] = 1000; }
  Node::Guard guard(*second);
  guard.reap(true);
  EXPECT_EQ(guard.used_bytes(0), 1000u);
}

TEST_F(NodeFile, TheRowOfOneThatIsGoneIsReclaimed) {
  auto watcher = open(), gone = open();
  uint32_t row = gone->claim_row();
  { Node::Guard(*gone)->rows[row].bytes[0] = 1000; }
  gone->abandon_after_fork();  // drops its locks as a death would, without tidying up
  Node::Guard guard(*watcher);
  guard.reap(true);
  EXPECT_EQ(guard.used_bytes(0), 0u);
}

TEST_F(NodeFile, TransfersQueueOnTheirOwnDirection) {
  auto node = open();
  Node::Guard guard(*node);
  int64_t begin = guard.now_ns();
  int64_t first = guard.transfer(0, Direction::kHostToDevice, 10'000'000, true, begin, 0);
  int64_t second = guard.transfer(0, Direction::kHostToDevice, 10'000'000, true, begin, 0);
  int64_t other = guard.transfer(0, Direction::kDeviceToHost, 10'000'000, true, begin, 0);
  EXPECT_EQ(first - begin, 1'001'000);  // 10 GB/s and 1 us
  EXPECT_EQ(second - begin, 2'001'000);
  EXPECT_EQ(other, first);
}

// What both touch is for the thread sanitizer to look at.
TEST_F(NodeFile, TheClockIsHeldWhileAnotherThreadMovesTheModelsOn) {
  auto node = open();
  const uint32_t row = node->claim_row();
  constexpr int kTimes = 200;
  std::thread holder([&] {
    for (int i = 0; i < kTimes; i++) node->hold_clock(node->now_ns() + 1);
    node->hold_clock(0);
  });
  int64_t last_ns = 0;
  for (int i = 0; i < kTimes; i++) {
    Node::Guard guard(*node);
    EXPECT_GE(guard.now_ns(), last_ns);
    last_ns = guard.now_ns();
  }
  holder.join();
  EXPECT_EQ(Node::Guard(*node)->holds[row].at_ns, 0);
}

// Keeps the lock as a process that means harm does.
class LockKept {
 public:
  explicit LockKept(const std::string& path)
      : fd_(::open(path.c_str(), O_RDWR | O_CLOEXEC)), kept_(try_lock(fd_, kLockByte)) {}
  ~LockKept() { close(fd_); }
  bool kept() const { return kept_; }

 private:
  int fd_;
  bool kept_;
};

TEST_F(NodeFile, WhoLooksWhileTheLockIsKeptIsCutOffUntilItIsFree) {
  auto node = open();
  ASSERT_TRUE(node) << error;
  {
    const LockKept harm(path);
    ASSERT_TRUE(harm.kept());
    Node::Guard guard(*node);
    EXPECT_TRUE(node->is_cut_off());
    EXPECT_EQ(guard->devices[0].health.lost, 0u) << "not yet";
  }
  {
    const LockKept harm(path);
    ASSERT_TRUE(harm.kept());
    Node::Guard guard(*node);
    EXPECT_TRUE(node->is_cut_off()) << "again, and without a wait";
  }
  Node::Guard guard(*node);
  EXPECT_FALSE(node->is_cut_off());
}

TEST_F(NodeFile, AProcessWhoseNodeIsDamagedGoesOnWithoutItForGood) {
  auto user = open();
  const uint32_t row = user->claim_row();
  const uint32_t epoch = user->epoch(0);
  const int32_t count = user->spec().device_count, other = 77;
  const auto write_count = [this](const int32_t& to) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    EXPECT_EQ(pwrite(fd, &to, sizeof to, offsetof(NodeState, spec.device_count)), 4);
    close(fd);
  };
  write_count(other);
  { Node::Guard guard(*user); }
  EXPECT_TRUE(user->is_cut_off());
  EXPECT_NE(user->epoch(0), epoch) << "its contexts are dead";
  write_count(count);
  { Node::Guard guard(*user); }
  EXPECT_TRUE(user->is_cut_off()) << "it does not know what it has lost";
  Node::Guard(*user)->rows[row].bytes[0] = 7;
  auto watcher = open();
  ASSERT_TRUE(watcher) << error;
  EXPECT_EQ(Node::Guard(*watcher).used_bytes(0), 0u);
}

TEST_F(NodeFile, NewProcessesAreRefusedADamagedNode) {
  auto harm = open();
  { Node::Guard(*harm)->spec.device.multiprocessors = -1; }
  EXPECT_EQ(open(), nullptr);
  EXPECT_NE(error.find("is damaged"), std::string::npos) << error;
}

// Whatever is written where: calls come back, and nothing outside the state is touched.
TEST_F(NodeFile, RandomBytesAnywhereHarmNoOtherMemory) {
  std::mt19937_64 random(27);
  // Most of the state is for devices and processes that are not there.
  constexpr size_t kInUse[] = {0,
                               offsetof(NodeState, devices),
                               offsetof(NodeState, partitions),
                               offsetof(NodeState, holds),
                               offsetof(NodeState, rows),
                               offsetof(NodeState, shared)};
  for (int round = 0; round < 30; round++) {
    unlink(path.c_str());
    auto user = open(), harm = open(), watcher = open();
    ASSERT_TRUE(user && harm && watcher) << error;
    const uint32_t row = user->claim_row();
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    std::vector<uint64_t> bytes(1 + random() % 4096);
    for (uint64_t& word : bytes) word = random() % 4 == 0 ? 0 : random();
    const size_t last = sizeof(NodeState) - bytes.size() * 8;
    const size_t near = kInUse[random() % std::size(kInUse)] + random() % 512 * 8;
    const off_t at = static_cast<off_t>(round % 4 == 0 ? random() % last : std::min(near, last));
    ASSERT_GT(pwrite(fd, bytes.data(), bytes.size() * 8, at), 0);
    close(fd);
    for (Node* node : {watcher.get(), user.get()}) {
      Node::Guard guard(*node);
      guard.reap(true);
      for (int partition : guard.partitions()) (void)guard.used_bytes(partition);
      (void)guard.transfer(0, Direction::kHostToDevice, 1000, true, guard.now_ns(), row);
      (void)utilization_percent(guard.model(0));
    }
  }
}

TEST_F(NodeFile, HasAsManyDevicesAsThereCanBeEachWithItsOwnAccount) {
  NodeSpec spec;
  ASSERT_TRUE(read_node_spec("a100-80gb-mig-x64", &spec, &error)) << error;
  auto node = Node::create(path, spec, &error);
  ASSERT_TRUE(node) << error;
  const uint32_t row = node->claim_row();
  Node::Guard guard(*node);
  const std::vector<int> partitions = guard.partitions();
  EXPECT_EQ(partitions.size(), 64u * (1 + spec.mig.instance_count));
  guard->rows[row].bytes[63] = 1000;
  guard->rows[row].bytes[partition_of(62, 2)] = 2000;
  EXPECT_EQ(guard.used_bytes(63), 1000u);
  EXPECT_EQ(guard.used_bytes(62), 2000u);
  EXPECT_EQ(guard.used_bytes(61), 0u);
  std::set<std::string> uuids;
  char raw[16];
  for (int partition : partitions) uuids.insert(node->device_uuid(partition, raw));
  EXPECT_EQ(uuids.size(), partitions.size());
}

TEST_F(NodeFile, TakesNoSpaceForWhatItDoesNotHave) {
  auto node = open();
  ASSERT_TRUE(node) << error;
  (void)node->claim_row();
  struct stat facts {};
  ASSERT_EQ(stat(path.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_size, static_cast<off_t>(sizeof(NodeState)));
  EXPECT_LT(facts.st_blocks * 512, facts.st_size / 8);
}

TEST_F(NodeFile, AFileOfAnotherKindIsRefused) {
  std::ofstream(path) << "not a node";
  EXPECT_EQ(open(), nullptr);
  EXPECT_NE(error.find("not a node file"), std::string::npos) << error;
}

}  // namespace
}  // namespace lambent::emulated_node
