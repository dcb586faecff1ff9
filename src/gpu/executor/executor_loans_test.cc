// Objects that one real lambent-executor lends to another, on one emulated device or another.
#include <gmock/gmock.h>

#include "gpu/executor/testing/function_testing.h"

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
  // Asks for y = 3x + 1 for x = 2, as an object.
  void begin_to_make(uint64_t invocation, uint64_t seat) {
    std::string request = R"({"inputs": [{"name": "x", "data": [2)";
    for (size_t i = 1; i < kCount; ++i) request += ",2";
    request += R"(]}], "outputs": [{"name": "y", "parameters": {"object": true}}]})";
    process_->run(invocation, seat, request, "application/json");
  }
  ObjectId make(uint64_t invocation = 1, uint64_t seat = 1) {
    begin_to_make(invocation, seat);
    return made();
  }
  ObjectId made() {
    const auto finished = process_->expect<Finished>();
    EXPECT_TRUE(finished && !finished->error && finished->objects.size() == 1);
    return finished->objects.at(0).object;
  }
  std::optional<ObjectLent> lend(ObjectId object, std::vector<OwnedFd>* fds) {
    process_->send(protocol::LendObject{object});
    return process_->expect<ObjectLent>(fds);
  }

  // A request that reads the object.
  static std::string of(ObjectId object) {
    return R"({"inputs": [{"name": "x", "parameters": {"object": ")" + to_string(object) +
           R"("}}], "outputs": [{"name": "y", "parameters": {"object": true}}]})";
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
    borrower.run(1, 5, of(object), "application/json");
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

class ExecutorObjectsRoomTest : public ExecutorLoansTest {
 protected:
  // Takes the lender's object; what it says of it then.
  std::optional<protocol::ObjectHeld> take(ExecutorProcess& taker, ObjectId object) {
    std::vector<OwnedFd> lent;
    EXPECT_FALSE(lend(object, &lent)->error.has_value());
    taker.send(protocol::TakeObject{object, {DataType::kInt32, {kCount}}, Bytes::mib(4)},
               {lent.at(0).get()});
    std::optional<protocol::ObjectHeld> held;
    for (;;) {
      const auto next = taker.receive();
      if (!next) return std::nullopt;
      if (const auto* said = std::get_if<protocol::ObjectHeld>(&next->message)) held = *said;
      if (!std::holds_alternative<protocol::LoanEnded>(next->message)) continue;
      process_->send(protocol::LoanEnded{object});
      return held;
    }
  }
  protocol::ObjectHeld held() { return process_->expect<protocol::ObjectHeld>().value(); }
  // The seat's memory leaves the device; what it made may stay.
  void move_seat(bool out) {
    process_->send(protocol::MoveSeat{SandboxId(1), out});
    EXPECT_TRUE(process_->expect<protocol::SeatMoved>()->done);
  }
};

TEST_F(ExecutorObjectsRoomTest, AnObjectIsTakenWhereThereIsRoomForIt) {
  const ObjectId object = make();
  ExecutorProcess taker(settings("0"));
  ASSERT_TRUE(taker.expect<protocol::ExecutorHello>().has_value());
  EXPECT_EQ(take(taker, object), std::nullopt);
  taker.send(protocol::SetObjectRoom{Bytes::mib(6)});
  EXPECT_EQ(take(taker, object), (protocol::ObjectHeld{object, Bytes::mib(4)}));
  EXPECT_EQ(take(taker, object), std::nullopt) << "it is there";
  EXPECT_EQ(take(taker, make(2)), std::nullopt) << "another would have to go for it";
  // It is read where it lies, and is what it was.
  taker.add_seat(5, taker.package(affine(kCount)), Bytes::mib(64));
  ASSERT_TRUE(taker.expect<protocol::SeatReady>().has_value());
  taker.run(3, 5, of(object), "application/json");
  std::vector<OwnedFd> fds;
  const auto finished = taker.expect<Finished>(&fds);
  ASSERT_TRUE(finished && !finished->error);
  EXPECT_EQ(ints_of(ExecutorProcess::content_of(fds.at(0).get())), std::vector<int>(kCount, 22));
}

TEST_F(ExecutorObjectsRoomTest, AnObjectThatIsDroppedGoesUnlessItIsLent) {
  const ObjectId object = make();
  std::vector<OwnedFd> fds;
  ASSERT_FALSE(lend(object, &fds)->error.has_value());
  process_->send(protocol::DropObject{object, false});
  EXPECT_EQ(held(), (protocol::ObjectHeld{object, Bytes::mib(4)}));
  process_->send(protocol::LoanEnded{object});
  process_->send(protocol::DropObject{object, false});
  EXPECT_EQ(held(), (protocol::ObjectHeld{object, Bytes(0)}));
  EXPECT_TRUE(lend(object, &fds)->error.has_value());
}

TEST_F(ExecutorObjectsRoomTest, ADeletedObjectGoesAsSoonAsNobodyUsesIt) {
  const ObjectId lent = make(1), free = make(2);
  std::vector<OwnedFd> fds;
  ASSERT_FALSE(lend(lent, &fds)->error.has_value());
  process_->send(protocol::DropObject{lent, true});
  process_->send(protocol::DropObject{free, true});
  EXPECT_EQ(held(), (protocol::ObjectHeld{free, Bytes(0)}));
  process_->send(protocol::LoanEnded{lent});
  EXPECT_EQ(held(), (protocol::ObjectHeld{lent, Bytes(0)}));
}

TEST_F(ExecutorObjectsRoomTest, ADeletedObjectIsAskedForAgain) {
  const ObjectId object{{3, 4}, 0};
  const std::string content(kCount * sizeof(int), '\0');
  for (uint64_t invocation = 1; invocation <= 2; ++invocation) {
    process_->run(invocation, 1, of(object), "application/json");
    EXPECT_EQ(process_->give_object({DataType::kInt32, {kCount}}, content), object);
    EXPECT_EQ(held(), (protocol::ObjectHeld{object, Bytes::mib(4)}));
    EXPECT_FALSE(process_->expect<Finished>()->error.has_value());
    process_->send(protocol::DropObject{object, true});
    EXPECT_EQ(held(), (protocol::ObjectHeld{object, Bytes(0)}));
  }
}

TEST_F(ExecutorObjectsRoomTest, AnObjectStaysBeyondItsMakersMemoryAsLongAsThereIsRoom) {
  process_->send(protocol::SetObjectRoom{Bytes::mib(4)});
  const ObjectId object = make();
  move_seat(true);
  std::vector<OwnedFd> fds;
  EXPECT_FALSE(lend(object, &fds)->error.has_value());
  process_->send(protocol::LoanEnded{object});
  process_->send(protocol::SetObjectRoom{Bytes(0)});
  EXPECT_EQ(held(), (protocol::ObjectHeld{object, Bytes(0)}));
}

// The seat's share has room for three such buffers. Of its second request the input has come, and
// the first one's output, which is lent, is in the way of the last of its own.
TEST_F(ExecutorObjectsRoomTest, ARequestWaitsForMemoryThatIsLent) {
  add(2, process_->package(affine(kCount)), Bytes::mib(12));
  process_->send(protocol::RemoveSeat{SandboxId(1)});
  const ObjectId made = make(1, 2);
  std::vector<OwnedFd> fds;
  ASSERT_FALSE(lend(made, &fds)->error.has_value());
  const ObjectId input{{3, 4}, 0};
  process_->run(2, 2, of(input), "application/json");
  process_->give_object({DataType::kInt32, {kCount}}, std::string(kCount * sizeof(int), '\0'));
  EXPECT_EQ(held(), (protocol::ObjectHeld{input, Bytes::mib(4)}));
  process_->send(protocol::LoanEnded{made});
  EXPECT_EQ(held(), (protocol::ObjectHeld{made, Bytes(0)}));
  const auto finished = process_->expect<Finished>();
  ASSERT_TRUE(finished.has_value());
  EXPECT_FALSE(finished->error.has_value()) << to_string(*finished->error);
}

// The limit falls while a request runs, below what it uses and what is lent: its output has to go
// as soon as it is there.
TEST_F(ExecutorObjectsRoomTest, WhatWasMadeIsSaidBeforeThatItHasGone) {
  // It runs long enough to hear of the limit; else it says nothing of a limit.
  const std::string rounds = R"({"repeat": 4, "steps": [)" + increment("t", kCount) + "]}";
  add(2,
      process_->package(function({buffer("t", "temporary", kCount), buffer("y", "output", kCount)},
                                 {rounds, scale("t", "y", 1, 0, kCount)})),
      Bytes::mib(8));
  process_->send(protocol::RemoveSeat{SandboxId(1)});
  process_->send(protocol::SetObjectRoom{Bytes::mib(8)});
  const std::string request =
      R"({"inputs": [], "outputs": [{"name": "y", "parameters": {"object": true}}]})";
  std::vector<OwnedFd> fds;
  for (uint64_t invocation = 1; invocation <= 2; ++invocation) {
    process_->run(invocation, 2, request, "application/json");
    ASSERT_FALSE(lend(made(), &fds)->error.has_value());
  }
  process_->run(3, 2, request, "application/json");
  process_->send(protocol::SetObjectRoom{Bytes(0)});
  const auto first = process_->receive();
  ASSERT_TRUE(first.has_value());
  const auto* finished = std::get_if<Finished>(&first->message);
  ASSERT_NE(finished, nullptr) << "it has gone before it was there";
  ASSERT_EQ(finished->objects.size(), 1u);
  EXPECT_EQ(held(), (protocol::ObjectHeld{finished->objects[0].object, Bytes(0)}));
}

// Of the second request all but the input have a place: the first one's output, which is lent, is
// in the way. What has one becomes an object under another name, and is in use no more afterwards.
TEST_F(ExecutorObjectsRoomTest, ARequestThatWaitedForALoanUsesEachOfItsPlacesOnce) {
  add(3, process_->package(affine(2)), Bytes::mib(2));
  add(2, process_->package(affine(kCount)), Bytes::mib(12));
  process_->send(protocol::RemoveSeat{SandboxId(1)});
  const ObjectId first = make(1, 2);
  std::vector<OwnedFd> fds;
  ASSERT_FALSE(lend(first, &fds)->error.has_value());
  begin_to_make(2, 2);
  // Long requests are read one after the other: when this one is answered, the other one waits.
  std::string small = R"({"inputs": [{"name": "x", "data": [1, 2]}]})";
  small.resize(protocol::kInlinePayload.count + 1, ' ');
  process_->run(3, 3, small, "application/json");
  const auto answered = process_->expect<Finished>();
  ASSERT_TRUE(answered.has_value());
  EXPECT_EQ(answered->invocation, (InvocationId{7, 3}));
  process_->send(protocol::LoanEnded{first});
  EXPECT_EQ(held(), (protocol::ObjectHeld{first, Bytes(0)}));
  const ObjectId second = made();
  process_->send(protocol::DropObject{second, false});
  EXPECT_EQ(held(), (protocol::ObjectHeld{second, Bytes(0)}));
}

TEST_F(ExecutorObjectsRoomTest, ASeatThatIsRemovedWhileItsRequestWaitsForALoanAnswersIt) {
  add(2, process_->package(affine(kCount)), Bytes::mib(12));
  process_->send(protocol::RemoveSeat{SandboxId(1)});
  const ObjectId made = make(1, 2);
  std::vector<OwnedFd> fds;
  ASSERT_FALSE(lend(made, &fds)->error.has_value());
  const ObjectId input{{3, 4}, 0};
  process_->run(2, 2, of(input), "application/json");
  process_->give_object({DataType::kInt32, {kCount}}, std::string(kCount * sizeof(int), '\0'));
  EXPECT_EQ(held().object, input);
  process_->send(protocol::RemoveSeat{SandboxId(2)});
  EXPECT_EQ(process_->expect<Finished>()->error->code, ErrorCode::kUnavailable);
  process_->send(protocol::LoanEnded{made});
  add(3, process_->package(affine(2)));
  works(3);
}

}  // namespace
}  // namespace lambent::executor
