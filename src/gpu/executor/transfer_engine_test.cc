// Random transfers over an emulated link, both ways: what comes back is what went, and only one
// that fails fails.
#include "gpu/executor/transfer_engine.h"

#include <algorithm>
#include <random>

#include "core/base/mutex.h"
#include "core/base/sealed_memory.h"
#include "gpu/executor/testing/testing.h"

namespace lambent::executor {
namespace {

class TransferEngineTest : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    if (!IsSkipped()) start({});
  }
  void start(const scheduling::TransferOptions& order) {
    for (const auto direction : {LinkDirection::kToDevice, LinkDirection::kToHost}) {
      auto engine = TransferEngine::create(loop_, *driver_, *context_, direction, {order, ""});
      ASSERT_TRUE(engine.ok()) << to_string(engine.error());
      (direction == LinkDirection::kToDevice ? in_ : out_) = std::move(*engine);
    }
  }
  void TearDown() override {
    in_.reset();
    out_.reset();
  }
  // How it ended, when it has.
  std::shared_ptr<std::optional<Result<void>>> copy(TransferEngine& engine,
                                                    TransferEngine::Transfer transfer) {
    auto outcome = std::make_shared<std::optional<Result<void>>>();
    transfer.on_end = [outcome](Result<void> how) { *outcome = std::move(how); };
    engine.start(std::move(transfer));
    return outcome;
  }
  Result<void> await(const std::shared_ptr<std::optional<Result<void>>>& outcome) {
    while (!outcome->has_value()) loop_.run_once(seconds(30));
    return **outcome;
  }
  cuda::DeviceBuffer allocate(Bytes size) {
    auto buffer = cuda::DeviceBuffer::allocate(*driver_, size);
    CHECK(buffer.ok(), "a test has memory");
    return std::move(*buffer);
  }
  std::string content_of(const cuda::DeviceBuffer& buffer) {
    std::string content(buffer.size().count, '\0');
    EXPECT_TRUE(buffer.read(std::as_writable_bytes(std::span(content))).ok());
    return content;
  }

  SystemClock clock_;
  loop::EventLoop loop_{clock_};
  std::unique_ptr<TransferEngine> in_, out_;
};

TEST_F(TransferEngineTest, WhatGoesInComesOutUnderEveryOrder) {
  const uint32_t seed = 11;
  std::mt19937 random(seed);
  scheduling::TransferOptions orders[4];
  orders[1].block = Bytes::kib(16);
  orders[2].fuse = false;
  orders[3].batch = 0;
  for (const auto& order : orders) {
    start(order);
    const auto buffer = allocate(Bytes::mib(16));
    std::string content(buffer.size().count, '\0');
    for (char& each : content) each = static_cast<char>(random());
    auto file = sealed_memory(content);
    ASSERT_TRUE(file.ok());
    // Pieces that lie side by side in steps of 512, as a pool hands them out, and larger ones.
    std::vector<std::shared_ptr<std::optional<Result<void>>>> ends;
    std::vector<std::pair<uint64_t, uint64_t>> pieces;
    for (uint64_t at = 0; at < content.size();) {
      const uint64_t size = random() % (random() % 4 == 0 ? 3'000'000 : 20'000);
      pieces.emplace_back(at, std::min<uint64_t>(size, content.size() - at));
      at += (pieces.back().second + 511) / 512 * 512;
    }
    std::vector<OwnedFd> files;
    for (size_t first = 0; first < pieces.size(); first += 3) {
      TransferEngine::Transfer transfer;
      transfer.owner = random() % 4;
      transfer.urgent = random() % 2 == 0;
      for (size_t i = first; i < std::min(first + 3, pieces.size()); ++i) {
        const auto [at, size] = pieces[i];
        transfer.pieces.push_back({.device = buffer.pointer() + at, .size = Bytes(size)});
        if (random() % 2 == 0) {
          transfer.pieces.back().pointer = content.data() + at;
        } else {
          auto part = sealed_memory(std::string_view(content).substr(at, size));
          ASSERT_TRUE(part.ok());
          files.push_back(std::move(*part));
          transfer.pieces.back().fd = files.back().get();
        }
      }
      ends.push_back(copy(*in_, std::move(transfer)));
    }
    for (const auto& end : ends) EXPECT_TRUE(await(end).ok());
    const std::string there = content_of(buffer);
    std::string back(content.size(), '\0');
    ends.clear();
    for (const auto& [at, size] : pieces) {
      ASSERT_EQ(there.compare(at, size, content, at, size), 0) << "seed " << seed;
      TransferEngine::Transfer transfer;
      transfer.pieces.push_back(
          {.device = buffer.pointer() + at, .size = Bytes(size), .pointer = back.data() + at});
      ends.push_back(copy(*out_, std::move(transfer)));
    }
    for (const auto& end : ends) EXPECT_TRUE(await(end).ok());
    for (const auto& [at, size] : pieces) ASSERT_EQ(back.compare(at, size, content, at, size), 0);
  }
}

TEST_F(TransferEngineTest, PatternsFillAndBetweenPiecesNothingOfOthersGoesAlong) {
  std::string other(2 << 20, 'x');  // leaves its bytes in the page-locked memory
  const auto buffer = allocate(Bytes::mib(2));
  for (int i = 0; i < 6; ++i) {
    TransferEngine::Transfer transfer;
    transfer.pieces.push_back(
        {.device = buffer.pointer(), .size = Bytes(other.size()), .pointer = other.data()});
    EXPECT_TRUE(await(copy(*in_, std::move(transfer))).ok());
  }
  TransferEngine::Transfer transfer;
  transfer.pieces.push_back({.device = buffer.pointer(), .size = Bytes(5), .pattern = "ab"});
  transfer.pieces.push_back({.device = buffer.pointer() + 512, .size = Bytes(2), .pattern = "c"});
  EXPECT_TRUE(await(copy(*in_, std::move(transfer))).ok());
  const std::string there = content_of(buffer);
  EXPECT_EQ(there.substr(0, 514), "ababa" + std::string(507, '\0') + "cc");
}

TEST_F(TransferEngineTest, AFileThatIsTooShortFailsItsTransferAlone) {
  auto file = sealed_memory("1234");
  ASSERT_TRUE(file.ok());
  const auto buffer = allocate(Bytes(1024));
  std::vector<uint32_t> queued;
  TransferEngine::Transfer bad;
  bad.pieces.push_back({.device = buffer.pointer(), .size = Bytes(8), .fd = file->get()});
  bad.on_queued = [&](uint32_t piece, const cuda::Event&) { queued.push_back(piece); };
  TransferEngine::Transfer good;
  good.pieces.push_back({.device = buffer.pointer() + 512, .size = Bytes(4), .fd = file->get()});
  good.on_queued = [&](uint32_t piece, const cuda::Event&) { queued.push_back(10 + piece); };
  const auto bad_end = copy(*in_, std::move(bad)), good_end = copy(*in_, std::move(good));
  EXPECT_TRUE(await(good_end).ok());
  const auto failed = await(bad_end);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, ErrorCode::kDataLoss);
  EXPECT_EQ(queued, (std::vector<uint32_t>{10}));
  EXPECT_EQ(content_of(buffer).substr(512, 4), "1234");
}

TEST_F(TransferEngineTest, AnEngineThatEndsInTheMiddleTellsNobody) {
  const auto buffer = allocate(Bytes::mib(16));
  std::string content(buffer.size().count, 'x');
  TransferEngine::Transfer transfer;
  transfer.pieces.push_back(
      {.device = buffer.pointer(), .size = buffer.size(), .pointer = content.data()});
  const auto end = copy(*in_, std::move(transfer));
  in_.reset();
  loop_.run_once(Duration(0));
  EXPECT_FALSE(end->has_value());
}

// Copies that clients make: what the engine tells of their turns.
class ClientCopiesTest : public TransferEngineTest {
 protected:
  using Turn = forward_server::CopyTurns::Turn;
  static constexpr Bytes kChunk = Bytes::kib(512);

  Turn begin(uint64_t client) {
    return in_->begin(client, kChunk, [this, client] {
      const MutexLock lock(mutex_);
      gone_.push_back(client);
      changed_.notify_all();
    });
  }
  // So many as go at once.
  std::vector<uint64_t> fill_link(uint64_t client) {
    std::vector<uint64_t> copies;
    for (int i = 0; i < 16; ++i) {
      const Turn turn = begin(client);
      EXPECT_TRUE(turn.may_go) << i;
      copies.push_back(turn.copy);
    }
    return copies;
  }
  std::vector<uint64_t> wait_for(size_t count) {
    MutexLock lock(mutex_);
    while (gone_.size() < count) {
      if (!changed_.wait_for(lock, seconds(30))) break;
    }
    return gone_;
  }

  Mutex mutex_;
  Condition changed_;
  std::vector<uint64_t> gone_ GUARDED_BY(mutex_);
};

TEST_F(ClientCopiesTest, OneThatComesNewDoesNotWaitForAllOfAnother) {
  const auto first = fill_link(1);
  std::vector<uint64_t> waiting;
  for (int i = 0; i < 15; ++i) {
    const Turn turn = begin(1);
    EXPECT_FALSE(turn.may_go);
    waiting.push_back(turn.copy);
  }
  EXPECT_FALSE(in_->is_quiet());
  const Turn other = begin(2);
  EXPECT_FALSE(other.may_go);
  for (const uint64_t copy : first) in_->end(copy);
  const auto gone = wait_for(16);
  ASSERT_EQ(gone.size(), 16U);
  // Each has a block of four copies at a time; one may have been cut before the other came.
  const auto place = std::find(gone.begin(), gone.end(), 2) - gone.begin();
  EXPECT_LE(place, 8);
  for (const uint64_t copy : waiting) in_->end(copy);
  in_->end(other.copy);
  EXPECT_TRUE(begin(1).may_go);
}

TEST_F(ClientCopiesTest, OneThatEndsWithoutItsTurnIsNotTold) {
  const auto first = fill_link(1);
  begin(1);
  const Turn given_up = begin(2);
  const Turn last = begin(3);
  in_->end(given_up.copy);
  for (const uint64_t copy : first) in_->end(copy);
  const auto gone = wait_for(2);
  EXPECT_EQ(std::count(gone.begin(), gone.end(), 2), 0);
  in_->end(last.copy);
  in_->end(last.copy);  // a second time changes nothing
}

TEST_F(ClientCopiesTest, OneThatDoesNotEndKeepsNobodyForLong) {
  fill_link(1);
  EXPECT_FALSE(begin(2).may_go);
  EXPECT_EQ(wait_for(1), std::vector<uint64_t>{2});
  const auto buffer = allocate(Bytes::mib(4));
  std::string content(buffer.size().count, 'x');
  TransferEngine::Transfer transfer;
  transfer.pieces.push_back(
      {.device = buffer.pointer(), .size = buffer.size(), .pointer = content.data()});
  EXPECT_TRUE(await(copy(*in_, std::move(transfer))).ok());
  EXPECT_EQ(content_of(buffer), content);
}

}  // namespace
}  // namespace lambent::executor
