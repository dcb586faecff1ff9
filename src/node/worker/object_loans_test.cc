#include <sys/resource.h>

#include "node/worker/testing/executor_testing.h"

namespace lambent::worker {
namespace {

// Two executors of one tenant, in two domains; the first has made an object.
class ObjectLoansTest : public ExecutorHostTest {
 protected:
  void SetUp() override { start_both(DeviceId(1)); }
  void start_both(DeviceId borrowers) {
    ExecutorHostTest::SetUp();
    seat(SandboxId(1));
    lender = &launcher.latest();
    spec.gpu.domain = "other";
    host->start(SandboxId(2), spec, folder.path(), borrowers);
    ASSERT_TRUE(turn_until(loop, [&] { return launcher.running.size() == 2; }));
    ASSERT_TRUE(hears<protocol::AddSeat>().has_value());
    borrower = &launcher.latest();
  }
  // Its object of `size` bytes.
  ObjectId make(Bytes size) {
    const InvocationId id = give(SandboxId(1));
    EXPECT_TRUE(hears_from<protocol::Run>(*lender).has_value());
    protocol::Finished message = finished(id);
    const ObjectId object{id, 0};
    message.objects = {{object, raw_tensor(size)}};
    const OwnedFd file = memfd_with(std::string(size.count, 'x'), true);
    lender->say(message, {file.get()});
    EXPECT_TRUE(turn_until(loop, [&] { return !answers.empty(); }));
    return object;
  }
  template <typename Kind>
  std::optional<Kind> hears_from(FakeExecutor& executor, std::vector<OwnedFd>* fds = nullptr) {
    std::optional<FakeExecutor::Heard> heard;
    if (!turn_until(loop, [&] { return (heard = executor.hear()).has_value(); })) {
      return std::nullopt;
    }
    if (fds != nullptr) *fds = std::move(heard->fds);
    const Kind* kind = std::get_if<Kind>(&heard->message);
    return kind != nullptr ? std::optional(*kind) : std::nullopt;
  }
  // The lender is asked for the object.
  void ask_for(ObjectId object) {
    borrower->say(protocol::OpenObject{object});
    const auto asked = hears_from<protocol::LendObject>(*lender);
    ASSERT_TRUE(asked.has_value());
    EXPECT_EQ(asked->object, object);
  }
  void lend(ObjectId object) {
    const OwnedFd memory = memfd_with("device memory", false);
    lender->say(protocol::ObjectLent{object, std::nullopt, Bytes::mib(4)}, {memory.get()});
  }
  // How much is lent with the object, which the borrower gets now.
  std::optional<Bytes> lent_with(std::vector<OwnedFd>* fds = nullptr) {
    const auto opened = hears_from<protocol::ObjectOpened>(*borrower, fds);
    return opened ? std::optional(opened->lent) : std::nullopt;
  }

  FakeExecutor* lender = nullptr;
  FakeExecutor* borrower = nullptr;
};

TEST_F(ObjectLoansTest, WhoMadeAnObjectLendsItToAnotherUntilThatHasIt) {
  const ObjectId object = make(Bytes::mib(2));
  ask_for(object);
  lend(object);
  std::vector<OwnedFd> fds;
  EXPECT_EQ(lent_with(&fds), Bytes::mib(4));
  EXPECT_EQ(fds.size(), 2u);
  borrower->say(protocol::LoanEnded{object});
  EXPECT_EQ(hears_from<protocol::LoanEnded>(*lender)->object, object);
}

TEST_F(ObjectLoansTest, WhatIsSmallComesFromTheHost) {
  borrower->say(protocol::OpenObject{make(Bytes(100))});
  EXPECT_EQ(lent_with(), Bytes(0));
  EXPECT_FALSE(lender->hear().has_value());
}

class LoansBetweenDevicesTest : public ObjectLoansTest {
 protected:
  LoansBetweenDevicesTest() {
    setting.gpu.visible = {{DeviceId(1), "GPU-a"}, {DeviceId(2), "GPU-b"}, {DeviceId(3), "GPU-c"}};
  }
  void SetUp() override {}
};

TEST_F(LoansBetweenDevicesTest, WhoSeesTheOtherDeviceAndCanReachItBorrows) {
  launcher.peers = {1};
  start_both(DeviceId(2));
  EXPECT_EQ(lender->plan.environment.at("CUDA_VISIBLE_DEVICES"), "GPU-a,GPU-b,GPU-c");
  EXPECT_EQ(borrower->plan.environment.at("CUDA_VISIBLE_DEVICES"), "GPU-b,GPU-a,GPU-c");
  const ObjectId object = make(Bytes::mib(2));
  ask_for(object);
  lend(object);
  EXPECT_EQ(lent_with(), Bytes::mib(4));
}

TEST_F(LoansBetweenDevicesTest, WhoCannotReachTheOtherDeviceHasItFromTheHost) {
  launcher.peers = {2};  // the third alone
  start_both(DeviceId(2));
  borrower->say(protocol::OpenObject{make(Bytes::mib(2))});
  EXPECT_EQ(lent_with(), Bytes(0));
  EXPECT_FALSE(lender->hear().has_value());
}

TEST_F(LoansBetweenDevicesTest, ADeviceThatIsLeftIsSeenByNoneThatStartsUntilItIsWell) {
  ExecutorHostTest::SetUp();
  const auto visible_on = [&](uint32_t device) {
    const size_t before = launcher.running.size();
    host->start(SandboxId(10 + device), spec, folder.path(), DeviceId(device));
    EXPECT_TRUE(turn_until(loop, [&] { return launcher.running.size() > before; }));
    return launcher.latest().plan.environment.at("CUDA_VISIBLE_DEVICES");
  };
  host->leave(DeviceId(2));
  EXPECT_EQ(visible_on(1), "GPU-a,GPU-c");
  host->keep(spec, DeviceId(2));
  EXPECT_EQ(visible_on(3), "GPU-c,GPU-a,GPU-b");
}

TEST_F(LoansBetweenDevicesTest, AnExecutorThatNamesADeviceItCannotSeeIsEnded) {
  launcher.peers = {3};
  ExecutorHostTest::SetUp();
  host->start(SandboxId(1), spec, folder.path(), DeviceId(1));
  EXPECT_TRUE(turn_until(loop, [&] { return launcher.kills == 1; }));
}

class LoansBetweenInstancesTest : public LoansBetweenDevicesTest {
 protected:
  LoansBetweenInstancesTest() { setting.gpu.visible[DeviceId(2)] = "MIG-b"; }
};

TEST_F(LoansBetweenInstancesTest, AnInstanceSeesItselfAloneAndIsSeenByNoOther) {
  start_both(DeviceId(2));
  EXPECT_EQ(lender->plan.environment.at("CUDA_VISIBLE_DEVICES"), "GPU-a,GPU-c");
  EXPECT_EQ(borrower->plan.environment.at("CUDA_VISIBLE_DEVICES"), "MIG-b");
}

class WithoutLoansTest : public ObjectLoansTest {
 protected:
  WithoutLoansTest() { setting.lend_objects = false; }
};

TEST_F(WithoutLoansTest, EverythingComesFromTheHost) {
  borrower->say(protocol::OpenObject{make(Bytes::mib(2))});
  EXPECT_EQ(lent_with(), Bytes(0));
  EXPECT_FALSE(lender->hear().has_value());
  EXPECT_EQ(lender->plan.environment.at("CUDA_VISIBLE_DEVICES"), "0");
}

TEST_F(ObjectLoansTest, WhatItsMakerHasNoMoreComesFromTheHostAndIsNotAskedForAgain) {
  const ObjectId object = make(Bytes::mib(2));
  ask_for(object);
  lender->say(protocol::ObjectLent{object, Error{ErrorCode::kNotFound, "evicted"}, Bytes(0)});
  EXPECT_EQ(lent_with(), Bytes(0));
  borrower->say(protocol::OpenObject{object});
  EXPECT_EQ(lent_with(), Bytes(0));
  EXPECT_FALSE(lender->hear().has_value());
}

TEST_F(ObjectLoansTest, WhatItsMakerHasAndCouldNotLendIsAskedForAgain) {
  const ObjectId object = make(Bytes::mib(2));
  ask_for(object);
  lender->say(
      protocol::ObjectLent{object, Error{ErrorCode::kResourceExhausted, "files"}, Bytes(0)});
  EXPECT_EQ(lent_with(), Bytes(0));
  EXPECT_EQ(host->objects_on_devices(), Bytes::mib(2));
  ask_for(object);
}

TEST_F(ObjectLoansTest, ALoanThatTheWorkerHasNoDescriptorsForGoesBackAndMayBeAskedForAgain) {
  const ObjectId object = make(Bytes::mib(2));
  ask_for(object);
  lend(object);
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  rlimit none = files;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto ended = hears_from<protocol::LoanEnded>(*lender);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  ASSERT_TRUE(ended.has_value()) << "its maker would keep it for good";
  EXPECT_EQ(ended->object, object);
  EXPECT_EQ(lent_with(), Bytes(0));
  EXPECT_EQ(launcher.kills, 0);
  ask_for(object);
}

TEST_F(ObjectLoansTest, AMakerThatDoesNotAnswerIsNotWaitedForAndItsLoanGoesBack) {
  const ObjectId object = make(Bytes::mib(2));
  ask_for(object);
  clock.advance(milliseconds(21));
  EXPECT_EQ(lent_with(), Bytes(0));
  lend(object);
  EXPECT_EQ(hears_from<protocol::LoanEnded>(*lender)->object, object);
}

TEST_F(ObjectLoansTest, ABorrowerHasOneLoanOfAnObjectAtATime) {
  const ObjectId object = make(Bytes::mib(2));
  ask_for(object);
  borrower->say(protocol::OpenObject{object});
  EXPECT_EQ(lent_with(), Bytes(0)) << "one is on its way";
  lend(object);
  EXPECT_EQ(lent_with(), Bytes::mib(4));
  borrower->say(protocol::OpenObject{object});
  EXPECT_EQ(lent_with(), Bytes(0)) << "one is out";
  EXPECT_FALSE(lender->hear().has_value());
  borrower->say(protocol::LoanEnded{object});
  EXPECT_TRUE(hears_from<protocol::LoanEnded>(*lender).has_value());
  ask_for(object);
}

TEST_F(ObjectLoansTest, AMakerThatEndsKeepsNobodyWaiting) {
  const ObjectId object = make(Bytes::mib(2));
  ask_for(object);
  launcher.end(lender->id, {.signal = 9});
  EXPECT_EQ(lent_with(), Bytes(0));
}

TEST_F(ObjectLoansTest, WhatABorrowerHadThatEndsGoesBack) {
  const ObjectId object = make(Bytes::mib(2));
  ask_for(object);
  lend(object);
  EXPECT_EQ(lent_with(), Bytes::mib(4));
  launcher.end(borrower->id, {.signal = 9});
  EXPECT_EQ(hears_from<protocol::LoanEnded>(*lender)->object, object);
}

}  // namespace
}  // namespace lambent::worker
