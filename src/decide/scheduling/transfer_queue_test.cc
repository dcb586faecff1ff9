#include "decide/scheduling/transfer_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace lambent::scheduling {
namespace {

using Block = TransferQueue::Block;
using Part = TransferQueue::Part;

const Bytes kBlock = Bytes::mib(2);

std::vector<uint64_t> owners_of(const std::vector<Block>& blocks) {
  std::vector<uint64_t> owners;
  for (const Block& block : blocks) owners.push_back(block.owner);
  return owners;
}
uint64_t add(TransferQueue& queue, uint64_t owner, std::vector<Bytes> pieces, bool urgent = false) {
  return queue.add(owner, pieces, urgent);
}
using Owners = std::vector<uint64_t>;

TEST(TransferQueue, CutsALargePieceIntoBlocksAndMarksItsLast) {
  TransferQueue queue({});
  const auto transfer = add(queue, 7, {Bytes::mib(5)});
  EXPECT_EQ(queue.waiting(), Bytes::mib(5));
  const auto batch = queue.take_batch();
  ASSERT_EQ(batch.size(), 3u);
  EXPECT_EQ(batch[0].parts, (std::vector<Part>{{transfer, 0, Bytes(0), Bytes(0), kBlock}}));
  EXPECT_EQ(batch[1].parts, (std::vector<Part>{{transfer, 0, kBlock, Bytes(0), kBlock}}));
  EXPECT_EQ(batch[2].parts,
            (std::vector<Part>{{transfer, 0, Bytes::mib(4), Bytes(0), Bytes::mib(1), true, true}}));
  EXPECT_EQ(batch[2].size, Bytes::mib(1));
  EXPECT_TRUE(queue.empty());
  EXPECT_TRUE(queue.take_batch().empty());
}

TEST(TransferQueue, SmallNeighboursOfOneOwnerShareABlock) {
  TransferQueue queue({});
  const auto first = add(queue, 1, {Bytes(1000), Bytes(512), Bytes(0)});
  const auto second = add(queue, 1, {kBlock});
  const auto batch = queue.take_batch();
  ASSERT_EQ(batch.size(), 2u);
  EXPECT_EQ(batch[0].parts,
            (std::vector<Part>{{first, 0, Bytes(0), Bytes(0), Bytes(1000), true},
                               {first, 1, Bytes(0), Bytes(1024), Bytes(512), true},
                               {first, 2, Bytes(0), Bytes(1536), Bytes(0), true, true},
                               {second, 0, Bytes(0), Bytes(1536), kBlock - Bytes(1536)}}));
  EXPECT_EQ(batch[0].size, kBlock);
  EXPECT_EQ(
      batch[1].parts,
      (std::vector<Part>{{second, 0, kBlock - Bytes(1536), Bytes(0), Bytes(1536), true, true}}));

  TransferQueue apart({.fuse = false});
  add(apart, 1, {Bytes(1000), Bytes(512), Bytes(0)});
  EXPECT_EQ(apart.take_batch().size(), 3u);
}

TEST(TransferQueue, OwnersTakeTurnsBlockByBlock) {
  TransferQueue queue({});
  for (const uint64_t owner : {1, 2, 3}) add(queue, owner, {Bytes::mib(20)});
  std::multiset<uint64_t> served;
  for (int round = 1; round <= 4; ++round) {
    for (const uint64_t owner : owners_of(queue.take_batch())) served.insert(owner);
    for (const uint64_t owner : {1, 2, 3}) EXPECT_EQ(served.count(owner), 2u * round);
  }
}

TEST(TransferQueue, ANewcomerGetsInWithTheNextBatch) {
  TransferQueue queue({});
  for (uint64_t owner = 1; owner <= 10; ++owner) add(queue, owner, {Bytes::mib(200)});
  queue.take_batch();
  queue.take_batch();
  add(queue, 99, {Bytes(1000)});
  EXPECT_EQ(queue.take_batch().front().owner, 99u);
}

TEST(TransferQueue, WhoComesAgainAndAgainTakesNoMoreThanItsTurns) {
  TransferQueue queue({});
  for (uint64_t owner = 1; owner <= 2; ++owner) add(queue, owner, {Bytes::mib(400)});
  std::map<uint64_t, int> served, added;
  for (int batch = 0; batch < 20; ++batch) {
    for (uint64_t owner = 10; owner < 18; ++owner) {
      if (served[owner] < added[owner]) continue;
      add(queue, owner, {kBlock});
      ++added[owner];
    }
    for (const Block& block : queue.take_batch()) ++served[block.owner];
  }
  for (const uint64_t owner : {1, 2}) EXPECT_NEAR(served[owner], 20 * 6 / 10, 1);
}

TEST(TransferQueue, FirstComeIsFirstServedWhereThatIsWanted) {
  TransferQueue queue({.fair = false});
  add(queue, 2, {Bytes::mib(6)});
  add(queue, 1, {Bytes::mib(4)});
  EXPECT_EQ(owners_of(queue.take_batch()), (Owners{2, 2, 2, 1, 1}));
}

TEST(TransferQueue, ABatchMayBeAllThatWaits) {
  TransferQueue queue({.batch = 0});
  add(queue, 1, {Bytes::mib(64)});
  EXPECT_EQ(queue.take_batch().size(), 32u);
}

TEST(TransferQueue, AWeightOfTwoIsTwiceTheShare) {
  TransferQueue queue({.batch = 9});
  queue.set_weight(1, 2);
  add(queue, 1, {Bytes::mib(200)});
  add(queue, 2, {Bytes::mib(200)});
  const auto owners = owners_of(queue.take_batch());
  EXPECT_EQ(std::count(owners.begin(), owners.end(), 1), 6);
}

TEST(TransferQueue, UrgentTransfersGoBeforeTheirOwnersOthers) {
  TransferQueue queue({.fuse = false});
  const auto constant = add(queue, 1, {Bytes::mib(20)});
  ASSERT_EQ(queue.take_batch().size(), 6u);
  const auto input = add(queue, 1, {Bytes(8)}, true);
  const auto batch = queue.take_batch();
  ASSERT_EQ(batch.size(), 5u);
  EXPECT_EQ(batch[0].parts[0].transfer, input);
  EXPECT_EQ(batch[1].parts[0].transfer, constant);
}

TEST(TransferQueue, AnOwnerIsForgottenWithItsWeight) {
  TransferQueue queue({.batch = 4});
  queue.set_weight(1, 64);
  queue.forget(1);
  queue.forget(5);
  add(queue, 1, {Bytes::mib(200)});
  add(queue, 2, {Bytes::mib(200)});
  const auto owners = owners_of(queue.take_batch());
  EXPECT_EQ(std::count(owners.begin(), owners.end(), 1), 2);
}

// Random owners with random transfers at random times: every byte goes once and in its piece's
// order, blocks keep their size, none that waits is passed over for longer than a round.
class AnyTransfers : public testing::TestWithParam<uint32_t> {};

TEST_P(AnyTransfers, GoOnceInOrderAndInTurn) {
  SCOPED_TRACE("seed " + std::to_string(GetParam()));
  std::mt19937 random(GetParam());
  const auto any = [&](uint64_t most) { return random() % (most + 1); };
  TransferOptions options;
  options.block = Bytes::kib(16 << any(7));
  options.batch = any(8);
  options.fuse = any(1) == 1;
  TransferQueue queue(options);
  struct Expected {
    uint64_t owner = 0;
    std::vector<Bytes> pieces;
    uint32_t piece = 0;
    Bytes offset;
  };
  std::map<uint64_t, Expected> transfers;
  // What each other owner has had since this one's last block, while this one waits.
  std::map<uint64_t, std::map<uint64_t, Bytes>> waits;
  const uint64_t most_owners = 1 + any(11);
  for (int step = 0; step < 300 || !queue.empty(); ++step) {
    if (step < 300 && any(2) > 0) {
      Expected transfer;
      transfer.owner = any(most_owners - 1);
      for (uint64_t i = 0; i <= any(5); ++i) {
        transfer.pieces.push_back(Bytes(any(9) == 0 ? 0 : any(uint64_t{1} << (4 + any(17)))));
      }
      const bool urgent = any(3) == 0;
      transfers[queue.add(transfer.owner, transfer.pieces, urgent)] = transfer;
      waits.try_emplace(transfer.owner);
      continue;
    }
    const auto batch = queue.take_batch();
    ASSERT_LE(batch.size(), options.batch > 0 ? options.batch : SIZE_MAX);
    for (const Block& block : batch) {
      ASSERT_LE(block.size, options.block);
      ASSERT_LE(block.parts.size(), options.fuse ? SIZE_MAX : 1u);
      Bytes end;
      for (const Part& part : block.parts) {
        auto& expected = transfers.at(part.transfer);
        ASSERT_EQ(block.owner, expected.owner);
        ASSERT_EQ(part.piece, expected.piece);
        ASSERT_EQ(part.offset, expected.offset);
        ASSERT_GE(part.at, end);
        ASSERT_EQ(part.at.count % options.alignment.count, 0u);
        end = part.at + part.size;
        expected.offset += part.size;
        ASSERT_LE(expected.offset, expected.pieces[part.piece]);
        ASSERT_EQ(part.ends_piece, expected.offset == expected.pieces[part.piece]);
        if (part.ends_piece) {
          ++expected.piece;
          expected.offset = Bytes(0);
        }
        ASSERT_EQ(part.ends_transfer, expected.piece == expected.pieces.size());
        if (part.ends_transfer) transfers.erase(part.transfer);
      }
      ASSERT_EQ(end, block.size);
      waits.erase(block.owner);
      for (auto& [owner, others] : waits) {
        Bytes& had = others[block.owner];
        had += std::max(block.size, options.alignment);
        ASSERT_LE(had, options.block * 2) << "owner " << owner << " waits too long";
      }
      for (const auto& [id, transfer] : transfers) waits.try_emplace(transfer.owner);
    }
  }
  EXPECT_TRUE(transfers.empty());
  EXPECT_EQ(queue.waiting(), Bytes(0));
}

INSTANTIATE_TEST_SUITE_P(Seeds, AnyTransfers, testing::Range(1u, 41u));

// Owners with full blocks that always wait: after each round all have had the same.
TEST_P(AnyTransfers, OfFullBlocksAreSharedEquallyWithinARound) {
  std::mt19937 random(GetParam());
  TransferQueue queue({});
  const uint64_t owners = 2 + random() % 9;
  std::map<uint64_t, int> served;
  for (uint64_t owner = 0; owner < owners; ++owner) {
    add(queue, owner, {Bytes::mib(2000)});
    served[owner] = 0;
  }
  for (int batch = 0; batch < 60; ++batch) {
    for (const Block& block : queue.take_batch()) {
      ++served[block.owner];
      const auto [least, most] = std::minmax_element(
          served.begin(), served.end(),
          [](const auto& one, const auto& other) { return one.second < other.second; });
      ASSERT_LE(most->second - least->second, 1);
    }
  }
}

}  // namespace
}  // namespace lambent::scheduling
