// Objects that one real lambent-executor lends to another, on one emulated device or another.
#include <gmock/gmock.h>

#include "executor/function_testing.h"

namespace lambent::executor {
namespace {

using protocol::Finished;
using protocol::ObjectLent;

constexpr size_t kCount = 1 << 20;  // 4 MiB: it has memory of its own

class ExecutorLoansTest : public ExecutorTest {
 protected:
  void SetUp() override { start_lender("tiny", "0"); }
  // Which devices it sees, its own first.
  void start_lender(const std::string& machine, const std::string& visible) {
    machine_ = machine;
    start(settings(visible));
    add(1, process_->package(affine(kCount)));
  }
  std::vector<std::pair<std::string, std::string>> settings(const std::string& visible) const {
    return {{"EMULATED_CUDA_NODE", node_},
            {"EMULATED_CUDA_CONFIG", machine_},
            {"CUDA_VISIBLE_DEVICES", visible}};
  }
  // y = 3x + 1 for x = 2, as an object.
  ObjectId make() {
    std::string request = R"({"inputs": [{"name": "x", "data": [2)";
    for (size_t i = 1; i < kCount; ++i) request += ",2";
    request += R"(]}], "outputs": [{"name": "y", "parameters": {"object": true}}]})";
    process_->run(1, 1, request, "application/json");
    const auto finished = process_->expect<Finished>();
    EXPECT_TRUE(finished && !finished->error && finished->objects.size() == 1);
    return finished->objects.at(0).object;
  }
  std::optional<ObjectLent> lend(ObjectId object, std::vector<OwnedFd>* fds) {
    process_->send(protocol::LendObject{object});
    return process_->expect<ObjectLent>(fds);
  }

  struct Borrowed {
    std::vector<uint32_t> peers;  // as the borrower says
    bool from_device = false;     // else from the host
  };
  // What comes of it when an executor that sees these devices asks for the lender's object.
  Borrowed borrow(const std::string& visible) {
    const ObjectId object = make();
    std::vector<OwnedFd> lent;
    EXPECT_FALSE(lend(object, &lent)->error.has_value());

    ExecutorProcess borrower(settings(visible));
    const auto hello = borrower.expect<protocol::ExecutorHello>();
    borrower.add_seat(5, borrower.package(affine(kCount)), Bytes::mib(64));
    EXPECT_TRUE(borrower.expect<protocol::SeatReady>().has_value());
    borrower.run(1, 5,
                 R"({"inputs": [{"name": "x", "parameters": {"object": ")" + to_string(object) +
                     R"("}}], "outputs": [{"name": "y", "parameters": {"object": true}}]})",
                 "application/json");
    EXPECT_TRUE(borrower.expect<protocol::OpenObject>().has_value());
    // What the host has is another content, so that one sees which of the two was taken.
    const auto host = sealed_memory(std::string(kCount * sizeof(int), '\0'));
    EXPECT_TRUE(host.ok());
    borrower.send(
        protocol::ObjectOpened{object, std::nullopt, {DataType::kInt32, {kCount}}, Bytes::mib(4)},
        {host->get(), lent.at(0).get()});
    EXPECT_EQ(borrower.expect<protocol::LoanEnded>()->object, object);
    std::vector<OwnedFd> fds;
    const auto finished = borrower.expect<Finished>(&fds);
    EXPECT_TRUE(finished && !finished->error);
    const auto y = ints_of(ExecutorProcess::content_of(fds.at(0).get()));
    const bool from_device = y == std::vector<int>(kCount, 22);
    EXPECT_TRUE(from_device || y == std::vector<int>(kCount, 1));
    return {hello->peers, from_device};
  }

  TemporaryFolder folder_;
  const std::string node_ = folder_ / "node";
  std::string machine_;
};

TEST_F(ExecutorLoansTest, AnObjectOnTheDeviceIsLentWithTheMemoryThatItLiesIn) {
  const ObjectId object = make();
  std::vector<OwnedFd> fds;
  const auto lent = lend(object, &fds);
  ASSERT_TRUE(lent.has_value());
  EXPECT_FALSE(lent->error.has_value());
  EXPECT_EQ(lent->lent, Bytes::mib(4));
  EXPECT_EQ(fds.size(), 1u);
  // It stays while it is lent, and can go afterwards.
  process_->send(protocol::MoveSeat{SandboxId(1), true});
  EXPECT_TRUE(process_->expect<protocol::SeatMoved>()->done);
  EXPECT_FALSE(lend(object, &fds)->error.has_value());
  process_->send(protocol::LoanEnded{object});
  process_->send(protocol::LoanEnded{object});
  const auto gone = lend(object, &fds);
  ASSERT_TRUE(gone->error.has_value());
  EXPECT_EQ(gone->error->code, ErrorCode::kNotFound);
}

TEST_F(ExecutorLoansTest, TheBorrowerHasItWithoutTheLink) {
  const Borrowed borrowed = borrow("0");
  EXPECT_TRUE(borrowed.from_device);
  EXPECT_TRUE(borrowed.peers.empty());
}

TEST_F(ExecutorLoansTest, WhatCannotBeBorrowedComesFromTheHost) {
  const ObjectId object{{3, 4}, 0};
  process_->run(2, 1,
                R"({"inputs": [{"name": "x", "parameters": {"object": ")" + to_string(object) +
                    R"("}}], "outputs": [{"name": "y", "parameters": {"object": true}}]})",
                "application/json");
  ASSERT_TRUE(process_->expect<protocol::OpenObject>().has_value());
  const auto host = sealed_memory(std::string(kCount * sizeof(int), '\0'));
  ASSERT_TRUE(host.ok());
  process_->send(
      protocol::ObjectOpened{object, std::nullopt, {DataType::kInt32, {kCount}}, Bytes::mib(4)},
      {host->get(), host->get()});
  EXPECT_EQ(process_->expect<protocol::LoanEnded>()->object, object);
  std::vector<OwnedFd> fds;
  const auto finished = process_->expect<Finished>(&fds);
  ASSERT_TRUE(finished && !finished->error);
  EXPECT_EQ(ints_of(ExecutorProcess::content_of(fds.at(0).get())), std::vector<int>(kCount, 1));
}

TEST_F(ExecutorLoansTest, WhatDoesNotLieThereIsNotLentAndWhatWasNotLentDoesNotComeBack) {
  std::vector<OwnedFd> fds;
  EXPECT_EQ(lend({{1, 2}, 3}, &fds)->error->code, ErrorCode::kNotFound);
  EXPECT_TRUE(fds.empty());
  process_->send(protocol::LoanEnded{{{1, 2}, 3}});
  process_->run(2, 1, std::string(kCount * sizeof(int), '\0'));
  EXPECT_FALSE(process_->expect<Finished>()->error.has_value());
}

// Four devices: 0 and 1 are joined by NVLink, all others are peers over PCIe.
class LoansBetweenDevicesTest : public ExecutorLoansTest {
 protected:
  void SetUp() override {}
};

TEST_F(LoansBetweenDevicesTest, ABorrowerOnAPeerHasItOverNvlink) {
  start_lender("tiny-x4", "0,1,2,3");
  const Borrowed borrowed = borrow("1,0,2,3");
  EXPECT_TRUE(borrowed.from_device);
  EXPECT_EQ(borrowed.peers, (std::vector<uint32_t>{1, 2, 3}));
}

TEST_F(LoansBetweenDevicesTest, ABorrowerOnAPeerHasItOverPcie) {
  start_lender("tiny-x4", "0,1,2,3");
  EXPECT_TRUE(borrow("3,0,1,2").from_device);
}

TEST_F(LoansBetweenDevicesTest, ABorrowerThatIsNoPeerHasItFromTheHost) {
  const std::string machine = folder_ / "two.toml";
  auto text = read_file(LAMBENT_BINARY_DIR "/lib/emulated/presets/tiny.toml", 1 << 16);
  ASSERT_TRUE(text.ok());
  const std::string one = "devices = 1";
  ASSERT_NE(text->find(one), std::string::npos);
  text->replace(text->find(one), one.size(), "devices = 2");
  ASSERT_TRUE(write_file_atomically(machine, *text, false).ok());
  start_lender(machine, "0,1");
  const Borrowed borrowed = borrow("1,0");
  EXPECT_FALSE(borrowed.from_device);
  EXPECT_TRUE(borrowed.peers.empty());
}

TEST_F(LoansBetweenDevicesTest, ABorrowerThatDoesNotSeeTheDeviceHasItFromTheHost) {
  start_lender("tiny-x4", "0");
  EXPECT_FALSE(borrow("1").from_device);
}

}  // namespace
}  // namespace lambent::executor
