#include "emulator/emulated_node/node.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <thread>

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

TEST_F(NodeFile, AFileOfAnotherKindIsRefused) {
  std::ofstream(path) << "not a node";
  EXPECT_EQ(open(), nullptr);
  EXPECT_NE(error.find("not a node file"), std::string::npos) << error;
}

}  // namespace
}  // namespace lambent::emulated_node
