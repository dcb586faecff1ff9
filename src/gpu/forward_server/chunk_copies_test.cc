#include "gpu/forward_server/chunk_copies.h"

#include <gtest/gtest.h>

#include <cstring>

#include "gpu/forward_server/testing/parts_testing.h"

namespace lambent::forward_server {
namespace {

constexpr uint64_t kBlock = 1 << 19;  // a chunk

class ChunkCopiesTest : public PartsTest {
 protected:
  bool is_done(uint32_t chunk) const { return pages_.chunks[chunk].done.load() == 1; }
  void copy_in(uint64_t stream, uint64_t address, uint32_t chunk, char content) {
    std::memset(pages_.chunk_bytes[chunk], content, kBlock);
    EXPECT_TRUE(send(chunk_copies_, kCopyIn, {stream, address, chunk, kBlock}));
  }
};

TEST_F(ChunkCopiesTest, ACopyThatMayGoTakesItsTurnAndGivesItBack) {
  const uint64_t address = allocate(kBlock);
  copy_in(stream_, address, 0, 'a');
  EXPECT_TRUE(poll_until([&] { return is_done(0); }));
  EXPECT_EQ(first_byte(address), 'a');
  ASSERT_EQ(to_device_.asked.size(), 1U);
  EXPECT_EQ(to_device_.asked[0].client, 7U);
  EXPECT_EQ(to_device_.asked[0].size, Bytes(kBlock));
  EXPECT_EQ(to_device_.ended(), std::vector<uint64_t>{1});
  EXPECT_TRUE(to_host_.asked.empty());
}

TEST_F(ChunkCopiesTest, ACopyWaitsForItsTurnAndItsStreamWithIt) {
  to_device_.is_free = false;
  const uint64_t address = allocate(kBlock), other = allocate(kBlock);
  copy_in(stream_, address, 0, 'a');
  EXPECT_TRUE(send(process_memory_, kCopyRows, {stream_, other, 0, address, 0, kBlock, 1}));
  completions_.poll();
  EXPECT_FALSE(is_done(0));
  EXPECT_EQ(first_byte(address), 0);
  to_device_.asked.at(0).go();
  EXPECT_EQ(wait_for_stream(stream_), CUDA_SUCCESS);
  EXPECT_EQ(first_byte(other), 'a');
  EXPECT_TRUE(poll_until([&] { return is_done(0); }));
  EXPECT_EQ(to_device_.ended(), std::vector<uint64_t>{1});
}

TEST_F(ChunkCopiesTest, ACopyBehindOtherWorkAsksForItsTurnWhenItsStreamHasComeSoFar) {
  to_device_.is_free = false;
  const uint64_t address = allocate(kBlock);
  const size_t work = hold(stream_);
  copy_in(stream_, address, 0, 'a');
  completions_.poll();
  EXPECT_TRUE(to_device_.asked.empty());
  open(work);
  EXPECT_TRUE(poll_until([&] { return !to_device_.asked.empty(); }));
  EXPECT_EQ(first_byte(address), 0);
  to_device_.asked[0].go();
  EXPECT_TRUE(poll_until([&] { return is_done(0); }));
  EXPECT_EQ(first_byte(address), 'a');
}

TEST_F(ChunkCopiesTest, CopiesInARowAskForTheirTurnsTogether) {
  to_device_.is_free = false;
  const uint64_t address = allocate(4 * kBlock);
  for (uint32_t chunk = 0; chunk < 4; ++chunk) {
    copy_in(stream_, address + chunk * kBlock, chunk, 'a');
  }
  EXPECT_EQ(to_device_.asked.size(), 4U);
  for (const auto& asked : to_device_.asked) asked.go();
  EXPECT_TRUE(poll_until([&] { return is_done(3); }));
  EXPECT_EQ(to_device_.ended().size(), 4U);
}

TEST_F(ChunkCopiesTest, WhileTheLinkIsQuietACopyBehindOtherWorkNeedsNoTurn) {
  const uint64_t address = allocate(kBlock);
  const size_t work = hold(stream_);
  copy_in(stream_, address, 0, 'a');
  open(work);
  EXPECT_TRUE(poll_until([&] { return is_done(0); }));
  EXPECT_TRUE(to_device_.asked.empty());
}

TEST_F(ChunkCopiesTest, ACopyToTheHostTakesTurnsOfItsOwnDirection) {
  to_host_.is_free = false;
  const uint64_t address = allocate(kBlock);
  EXPECT_TRUE(send(process_memory_, kFill, {stream_, address, 0, 'b', 1, kBlock, uint64_t{1}}));
  EXPECT_EQ(wait_for_stream(stream_), CUDA_SUCCESS);
  EXPECT_TRUE(send(chunk_copies_, kCopyOut, {stream_, address, 2, kBlock}));
  EXPECT_TRUE(to_device_.asked.empty());
  EXPECT_FALSE(is_done(2));
  to_host_.asked.at(0).go();
  EXPECT_TRUE(poll_until([&] { return is_done(2); }));
  EXPECT_EQ(pages_.chunk_bytes[2][kBlock - 1], 'b');
}

// As the end of a process does it.
TEST_F(ChunkCopiesTest, WhenAllGatesOpenTheTurnsAreGivenUp) {
  to_device_.is_free = false;
  const uint64_t address = allocate(2 * kBlock);
  copy_in(stream_, address, 0, 'a');
  const size_t work = hold(stream_);
  copy_in(stream_, address + kBlock, 1, 'a');
  open(work);
  gates_.open_all();
  EXPECT_TRUE(poll_until([&] { return completions_.is_empty(); }));
  EXPECT_EQ(to_device_.ended().size(), to_device_.asked.size());
}

}  // namespace
}  // namespace lambent::forward_server
