// Device memory that moves out to the host and back while the program knows nothing of it, over the
// emulated driver; the test plays the worker and lambent-device.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>

#include "gpu/shim/testing/moves_fixture.h"

namespace lambent::shim {

const char* const kShimLibrary = SHIM_LIBRARY;
const char* const kMovingProbe = MOVING_PROBE;
const char* const kEmulatedFolder = EMULATED_FOLDER;

namespace {

using protocol::MemoryMessage;
using protocol::MemoryMessageKind;
using protocol::MemoryMode;
using protocol::MemoryMoveStatus;

// What "fill" allocates, in steps of what lies on the device: singly 70, 2, 4 and 40, together 2.
constexpr uint64_t kFilledMiB = 118;

long long now_ns() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

void expect_done(const MemoryMessage& answer, uint64_t mib) {
  EXPECT_EQ(answer.status, static_cast<uint32_t>(MemoryMoveStatus::kDone));
  EXPECT_EQ(answer.bytes, mib * kMiB);
}

TEST_F(Moves, BeginWithAHelloAtTheFirstContext) {
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.worker().hello().kind, MemoryMessageKind::kHello);
  EXPECT_EQ(tenant.worker().hello().mode, static_cast<uint32_t>(MemoryMode::kVmm));
  EXPECT_EQ(tenant.worker().hello().process, static_cast<uint32_t>(tenant.program().process()));
}

// Room is given away when every process that is known has moved out.
TEST_F(Moves, AreWaitedForByWhoeverHearsOfTheProcess) {
  Running program({kMovingProbe}, environment_);
  ASSERT_TRUE(program.wait_for("ready")) << "it has a context";
  pollfd connection = {listener_.get(), POLLIN, 0};
  ASSERT_EQ(poll(&connection, 1, 0), 1) << "nothing is waited for";
  const OwnedFd worker = listener_.accept();
  MemoryMessage hello;
  ASSERT_EQ(recv(worker.get(), &hello, sizeof(hello), MSG_DONTWAIT), ssize_t{sizeof(hello)});
  EXPECT_EQ(hello.kind, MemoryMessageKind::kHello);
}

// What a worker that is stopped is to a program: its socket takes no peer in.
class BeforeAStoppedWorker : public Moves {
 protected:
  BeforeAStoppedWorker() : in_line_(listener_.fill()) {}

  // The worker goes on, and comes to the one that had to wait.
  OwnedFd next_that_says_hello() {
    in_line_.clear();
    while (true) {
      OwnedFd connection = listener_.accept();
      const auto message = next_message(connection.get());
      if (message && message->kind == MemoryMessageKind::kHello) return connection;
    }
  }

  std::vector<OwnedFd> in_line_;
};

TEST_F(BeforeAStoppedWorker, AProgramGoesOnAndIsKnownLater) {
  Running program({kMovingProbe}, environment_);
  ASSERT_TRUE(program.wait_for("ready")) << "it does not wait for a worker that does not listen";
  EXPECT_NE(log().find("cannot connect"), std::string::npos);
  program.tell("fill");
  ASSERT_TRUE(program.wait_for("filled"));
  EXPECT_TRUE(next_that_says_hello().valid());
  EXPECT_EQ(program.finish().exit_code, 0);
}

// Memory of the second would be memory of which the worker cannot know.
TEST_F(BeforeAStoppedWorker, AThreadWaitsForTheOneThatGreets) {
  Running program({kMovingProbe, "by_two_threads"}, environment_);
  ASSERT_TRUE(program.wait_for("entered"));
  EXPECT_NE(log().find("cannot connect"), std::string::npos) << "one went on before the other";
  ASSERT_TRUE(program.wait_for("ready"));
  EXPECT_EQ(program.finish().exit_code, 0);
}

TEST_F(Moves, DoNotHappenWhereNobodyListens) {
  for (const std::string& nowhere :
       {folder_ / "nobody", folder_ / "ledger", std::string("/"), std::string(300, 'x')}) {
    SCOPED_TRACE(nowhere);
    environment_["LAMBENT_SHIM_MEMORY"] = nowhere;
    Running program({kMovingProbe}, environment_);
    program.tell("fill");
    program.tell("check");
    const Finished end = program.finish();
    EXPECT_EQ(end.exit_code, 0);
    EXPECT_EQ(end.values.at("broken"), "0");
    EXPECT_NE(log().find("cannot connect to " + nowhere), std::string::npos);
  }
}

TEST_F(Moves, LeaveEveryByteWhereItWasOverManyTurns) {
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  EXPECT_EQ(tenant.ask("graph", "graph"), "1");
  for (int turn = 0; turn < 5; ++turn) {
    expect_done(tenant.worker().move_out(), kFilledMiB);
    expect_done(tenant.worker().move_in(), kFilledMiB);
    EXPECT_NE(tenant.ask("check", "checked"), "");
    EXPECT_EQ(tenant.value("broken"), "0");
    EXPECT_EQ(tenant.ask("launch", "launched"), "1") << "a graph made before the move";
  }
}

TEST_F(Moves, GiveTheDeviceBackToOthers) {
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  const long long before = free_mib();
  expect_done(tenant.worker().move_out(), kFilledMiB);
  EXPECT_EQ(free_mib(), before + static_cast<long long>(kFilledMiB));
  expect_done(tenant.worker().move_in(), kFilledMiB);
  EXPECT_EQ(free_mib(), before);
}

TEST_F(Moves, TakeTheContextToo) {
  const long long empty = free_mib();
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  EXPECT_EQ(tenant.ask("graph", "graph"), "1");
  for (int turn = 0; turn < 2; ++turn) {
    const MemoryMessage out = tenant.worker().move_out_with_context();
    expect_done(out, kFilledMiB);
    EXPECT_EQ(out.left_bytes, 0u);
    EXPECT_EQ(free_mib(), empty) << "not even its context is there";
    expect_done(tenant.worker().move_in(), kFilledMiB);
    EXPECT_NE(tenant.ask("check", "checked"), "");
    EXPECT_EQ(tenant.value("broken"), "0");
    EXPECT_EQ(tenant.ask("launch", "launched"), "1");
  }
}

TEST_F(Moves, TakeTheContextOfOneThatIsOutAlready) {
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  expect_done(tenant.worker().move_out(), kFilledMiB);
  expect_done(tenant.worker().move_out_with_context(), 0);
  expect_done(tenant.worker().move_out_with_context(), 0);
  expect_done(tenant.worker().move_in(), kFilledMiB);
  tenant.ask("check", "checked");
  EXPECT_EQ(tenant.value("broken"), "0");
}

TEST_F(Moves, LeaveTheContextWhereTheDriverCannotTakeIt) {
  environment_["LAMBENT_SHIM_MEMORY_MODE"] = "uvm";  // managed memory cannot be checkpointed
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  const MemoryMessage out = tenant.worker().move_out_with_context();
  EXPECT_EQ(out.status, static_cast<uint32_t>(MemoryMoveStatus::kNotSupported));
  EXPECT_EQ(tenant.worker().move_in().status, static_cast<uint32_t>(MemoryMoveStatus::kDone));
  tenant.ask("check", "checked");
  EXPECT_EQ(tenant.value("broken"), "0");
}

TEST_F(Moves, AreRepeatedWithoutHarm) {
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  expect_done(tenant.worker().move_in(), 0);
  expect_done(tenant.worker().move_out(), kFilledMiB);
  expect_done(tenant.worker().move_out(), 0);
  expect_done(tenant.worker().move_in(), kFilledMiB);
  tenant.ask("check", "checked");
  EXPECT_EQ(tenant.value("broken"), "0");
}

TEST_F(Moves, HoldBackCallsUntilTheMemoryIsThere) {
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  expect_done(tenant.worker().move_out(), kFilledMiB);
  tenant.program().tell("check");
  tenant.program().tell("free");
  const long long before = now_ns();
  expect_done(tenant.worker().move_in(), kFilledMiB);
  EXPECT_GT(std::stoll(tenant.hear("checked")), before);
  EXPECT_EQ(tenant.value("broken"), "0");
}

TEST_F(Moves, HoldBackFreesToo) {
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  expect_done(tenant.worker().move_out(), kFilledMiB);
  tenant.program().tell("free");
  const long long before = now_ns();
  expect_done(tenant.worker().move_in(), kFilledMiB);
  EXPECT_GT(std::stoll(tenant.hear("freed")), before);
  EXPECT_EQ(reader_->read()->used, Bytes(0));
}

TEST_F(Moves, SayWhatStaysOnTheDevice) {
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  EXPECT_EQ(tenant.worker().move_out().left_bytes, 0u);
  tenant.worker().move_in();
  EXPECT_EQ(tenant.ask("array", "array"), "1");
  EXPECT_EQ(tenant.worker().move_out().left_bytes, kMiB);
}

TEST_F(Moves, GoOnWhileThreadsAllocateAndFree) {
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  EXPECT_EQ(tenant.ask("hammer", "hammering"), "1");
  for (int turn = 0; turn < 10; ++turn) {
    tenant.ask("rounds", "rounds");
    EXPECT_EQ(tenant.worker().move_out().status, 0u);
    EXPECT_EQ(tenant.worker().move_in().status, 0u);
  }
  EXPECT_EQ(tenant.ask("end_hammering", "broken_rounds"), "0");
  tenant.ask("check", "checked");
  EXPECT_EQ(tenant.value("broken"), "0");
}

TEST_F(Moves, InWaitUntilTheDeviceHasRoom) {
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  expect_done(tenant.worker().move_out(), kFilledMiB);
  std::map<std::string, std::string> plain = environment_;
  plain.erase("LD_PRELOAD");
  Running other({kMovingProbe}, plain);
  other.tell("take_all_but 80");
  ASSERT_TRUE(other.wait_for("took"));
  const long long before = free_mib();
  EXPECT_EQ(tenant.worker().move_in().status,
            static_cast<uint32_t>(MemoryMoveStatus::kNoDeviceMemory));
  EXPECT_EQ(free_mib(), before) << "what it had taken it gave back";
  other.tell("give_back");
  ASSERT_TRUE(other.wait_for("gave"));
  expect_done(tenant.worker().move_in(), kFilledMiB);
  tenant.ask("check", "checked");
  EXPECT_EQ(tenant.value("broken"), "0");
}

TEST_F(Moves, UseLeasesAgain) {
  const auto device = this->device({});
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  for (int turn = 0; turn < 3; ++turn) {
    expect_done(tenant.worker().move_out(), kFilledMiB);
    expect_done(tenant.worker().move_in(), kFilledMiB);
  }
  EXPECT_EQ(device->leases(), 1);
  EXPECT_GE(device->leased_bytes(), 113 * kMiB);
  EXPECT_LE(device->leased_bytes(), kFilledMiB * kMiB);
  tenant.ask("check", "checked");
  EXPECT_EQ(tenant.value("broken"), "0");
}

TEST_F(Moves, PutTogetherSmallLeases) {
  const auto device = this->device({.largest_lease = 7 * kMiB});
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  expect_done(tenant.worker().move_out(), kFilledMiB);
  EXPECT_GT(device->leases(), 15);
  expect_done(tenant.worker().move_in(), kFilledMiB);
  tenant.ask("check", "checked");
  EXPECT_EQ(tenant.value("broken"), "0");
}

TEST_F(Moves, StayWhereTheyAreWithoutALease) {
  const auto device = this->device({.gives_leases = false});
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  EXPECT_EQ(tenant.worker().move_out().status,
            static_cast<uint32_t>(MemoryMoveStatus::kNoHostMemory));
  tenant.ask("check", "checked");
  EXPECT_EQ(tenant.value("broken"), "0");
}

TEST_F(Moves, PrepareByLeasingAhead) {
  const auto device = this->device({});
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  tenant.worker().command(MemoryMessageKind::kPrepare);
  expect_done(tenant.worker().move_in(), 0);  // answered behind it
  EXPECT_EQ(device->leases(), 1);
  expect_done(tenant.worker().move_out(), kFilledMiB);
  EXPECT_EQ(device->leases(), 1);
}

TEST_F(Moves, TakeTurnsOnTheLinkAndGiveEachBack) {
  const auto device = this->device({});
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  expect_done(tenant.worker().move_out(), kFilledMiB);
  expect_done(tenant.worker().move_in(), kFilledMiB);
  tenant.worker().hang_up();
  tenant.program().finish();
  EXPECT_GE(device->turns(), 8) << "four quanta each way";
  EXPECT_TRUE(comes_true([&] { return device->turns_out() == 0; }));
  EXPECT_EQ(device->bytes_to_host(), device->bytes_to_device());
  EXPECT_GE(device->bytes_to_host(), 113 * kMiB);
}

TEST_F(Moves, ShareTheLinkAmongProcesses) {
  const auto device = this->device({});
  Tenant first(environment_, listener_);
  Tenant second(environment_, listener_);
  EXPECT_EQ(first.ask("fill", "filled"), "8");
  EXPECT_EQ(second.ask("fill", "filled"), "8");
  for (int turn = 0; turn < 3; ++turn) {
    first.worker().command(MemoryMessageKind::kMoveOut);
    second.worker().command(MemoryMessageKind::kMoveOut);
    expect_done(first.worker().answer(), kFilledMiB);
    expect_done(second.worker().answer(), kFilledMiB);
    first.worker().command(MemoryMessageKind::kMoveIn);
    second.worker().command(MemoryMessageKind::kMoveIn);
    expect_done(first.worker().answer(), kFilledMiB);
    expect_done(second.worker().answer(), kFilledMiB);
  }
  first.ask("check", "checked");
  second.ask("check", "checked");
  EXPECT_EQ(first.value("broken"), "0");
  EXPECT_EQ(second.value("broken"), "0");
}

TEST_F(Moves, GoOnWithoutADaemonThatAnswers) {
  const auto device = this->device({.grants_turns = false});
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  expect_done(tenant.worker().move_out(), kFilledMiB);
  expect_done(tenant.worker().move_in(), kFilledMiB);
  tenant.ask("check", "checked");
  EXPECT_EQ(tenant.value("broken"), "0");
  EXPECT_NE(log().find("gives no turn"), std::string::npos);
}

TEST_F(Moves, BringTheMemoryHomeWhenTheWorkerIsGone) {
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  expect_done(tenant.worker().move_out(), kFilledMiB);
  tenant.worker().hang_up();
  tenant.ask("check", "checked");
  EXPECT_EQ(tenant.value("broken"), "0");
}

TEST_F(Moves, SurviveAKillInTheMiddle) {
  const auto device = this->device({});
  const long long before = free_mib();
  for (int round = 0; round < 5; ++round) {
    Tenant tenant(environment_, listener_);
    EXPECT_EQ(tenant.ask("fill", "filled"), "8");
    tenant.worker().command(MemoryMessageKind::kMoveOut);
    if (round % 2 == 1) tenant.worker().command(MemoryMessageKind::kMoveIn);
    kill(tenant.program().process(), SIGKILL);
    EXPECT_EQ(tenant.program().finish().exit_code, 128 + SIGKILL);
    tenant.worker().answer();
  }
  EXPECT_EQ(free_mib(), before);
  EXPECT_EQ(reader_->read()->used, Bytes(0));
}

TEST_F(Moves, AreNotWaitedForWhereOnlyAChildIsLeft) {
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  EXPECT_EQ(tenant.ask("leave_a_child", "left"), "1");
  kill(tenant.program().process(), SIGKILL);
  tenant.worker().command(MemoryMessageKind::kMoveOut);
  EXPECT_EQ(tenant.worker().answer().status, static_cast<uint32_t>(MemoryMoveStatus::kFailed))
      << "the connection has ended with its process";
}

// Closing does not wake who waits on a descriptor, so the first command is lost with the
// connection.
TEST_F(Moves, GoOnAfterTheProgramHasClosedTheirConnections) {
  const auto device = this->device({});
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  expect_done(tenant.worker().move_out(), kFilledMiB);
  expect_done(tenant.worker().move_in(), kFilledMiB);
  EXPECT_EQ(tenant.ask("close_sockets", "closed"), "2");
  tenant.worker().command(MemoryMessageKind::kMoveOut);
  EXPECT_EQ(tenant.worker().answer().status, static_cast<uint32_t>(MemoryMoveStatus::kFailed))
      << "the connection has ended";
  WorkerSide again(listener_);
  EXPECT_EQ(again.hello().kind, MemoryMessageKind::kHello);
  expect_done(again.move_out(), kFilledMiB);
  expect_done(again.move_in(), kFilledMiB);
  tenant.ask("check", "checked");
  EXPECT_EQ(tenant.value("broken"), "0");
  EXPECT_EQ(device->leases(), 1) << "what it was given is its own still";
}

// As after an upgrade of the worker, which has a lambent-device of its own.
TEST_F(Moves, TellAnotherDaemonWhatTheProcessHas) {
  auto device = this->device({});
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  expect_done(tenant.worker().move_out(), kFilledMiB);
  const uint64_t leased = device->leased_bytes();
  device.reset();
  unlink((folder_ / "link").c_str());
  device = this->device({});
  expect_done(tenant.worker().move_out(), 0);  // where it is already
  EXPECT_TRUE(comes_true([&] { return device->claimed_bytes() == leased; }));
  expect_done(tenant.worker().move_in(), kFilledMiB);
  tenant.ask("check", "checked");
  EXPECT_EQ(tenant.value("broken"), "0");
  EXPECT_GT(device->turns(), 0);
  EXPECT_EQ(device->leases(), 0) << "what it has is enough";
}

TEST_F(Moves, DoNotReachAForkedChild) {
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  expect_done(tenant.worker().move_out(), kFilledMiB);
  EXPECT_EQ(tenant.ask("fork", "child"), "0") << "its gate is open";
  expect_done(tenant.worker().move_in(), kFilledMiB);
  tenant.ask("check", "checked");
  EXPECT_EQ(tenant.value("broken"), "0");
}

TEST_F(Moves, LetAProgramEndAndBecomeAnother) {
  for (const char* end : {"exit", "exec"}) {
    Tenant tenant(environment_, listener_);
    EXPECT_EQ(tenant.ask("fill", "filled"), "8");
    expect_done(tenant.worker().move_out(), kFilledMiB);
    tenant.worker().command(MemoryMessageKind::kMoveIn);
    tenant.program().tell(end);
    EXPECT_EQ(tenant.program().finish().exit_code, 0) << end;
  }
}

TEST_F(Moves, TakeAlongWhatTheProgramMapsByItself) {
  const auto device = this->device({});
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("own", "own"), "1");
  const long long before = free_mib();
  for (int turn = 0; turn < 3; ++turn) {
    const MemoryMessage out = tenant.worker().move_out();
    expect_done(out, 40);
    EXPECT_EQ(out.left_bytes, 0u);
    EXPECT_EQ(free_mib(), before + 40);
    expect_done(tenant.worker().move_in(), 40);
    EXPECT_EQ(free_mib(), before);
    tenant.ask("check", "checked");
    EXPECT_EQ(tenant.value("broken"), "0");
    EXPECT_EQ(tenant.ask("check_own", "same_handle"), "1");
    EXPECT_EQ(tenant.value("one_memory"), "1");
    EXPECT_EQ(tenant.value("closed"), "1");
  }
  EXPECT_EQ(tenant.ask("free_own", "freed_own"), "1");
  EXPECT_EQ(free_mib(), before + 40);
  EXPECT_EQ(reader_->read()->used, Bytes(0));
}

TEST_F(Moves, LeaveWhatTheProgramHasSharedOnTheDevice) {
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  EXPECT_EQ(tenant.ask("own", "own"), "1");
  EXPECT_EQ(tenant.ask("export_own", "exported"), "1");
  const MemoryMessage out = tenant.worker().move_out();
  expect_done(out, kFilledMiB + 34);
  EXPECT_EQ(out.left_bytes, 6 * kMiB);
  expect_done(tenant.worker().move_in(), kFilledMiB + 34);
  tenant.ask("check", "checked");
  EXPECT_EQ(tenant.value("broken"), "0");
  EXPECT_EQ(tenant.ask("check_own", "same_handle"), "1");
}

TEST_F(Moves, BringBackNothingOfWhatTheProgramMapsIfNotAllFits) {
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  EXPECT_EQ(tenant.ask("own", "own"), "1");
  expect_done(tenant.worker().move_out(), kFilledMiB + 40);
  std::map<std::string, std::string> plain = environment_;
  plain.erase("LD_PRELOAD");
  Running other({kMovingProbe}, plain);
  other.tell("take_all_but 140");
  ASSERT_TRUE(other.wait_for("took"));
  const long long before = free_mib();
  EXPECT_EQ(tenant.worker().move_in().status,
            static_cast<uint32_t>(MemoryMoveStatus::kNoDeviceMemory));
  EXPECT_EQ(free_mib(), before);
  other.tell("give_back");
  ASSERT_TRUE(other.wait_for("gave"));
  expect_done(tenant.worker().move_in(), kFilledMiB + 40);
  tenant.ask("check", "checked");
  EXPECT_EQ(tenant.value("broken"), "0");
  EXPECT_EQ(tenant.ask("check_own", "same_handle"), "1");
}

class MovesOfTwoDevices : public Moves {
 protected:
  MovesOfTwoDevices() {
    environment_["EMULATED_CUDA_CONFIG"] = "tiny-x4";
    environment_["LAMBENT_SHIM_GPUS"] = "2";
    auto reader = ledger::create_ledger(folder_ / "ledger.1", Bytes::mib(2000));
    EXPECT_TRUE(reader.ok());
  }
  // A program that has filled both, and works on the second.
  std::unique_ptr<Tenant> filled() {
    auto tenant = std::make_unique<Tenant>(environment_, listener_);
    EXPECT_EQ(tenant->ask("fill", "filled"), "8");
    EXPECT_EQ(tenant->ask("device 1", "on_device"), "1");
    EXPECT_EQ(tenant->ask("fill", "filled"), "16");
    return tenant;
  }
  static void expect_whole(Tenant& tenant) {
    tenant.ask("check", "checked");
    EXPECT_EQ(tenant.value("broken"), "0");
  }
};

TEST_F(MovesOfTwoDevices, AreOneMoveOfBoth) {
  const auto tenant = filled();
  const long long first = free_mib(0);
  const long long second = free_mib(1);
  for (int turn = 0; turn < 3; ++turn) {
    expect_done(tenant->worker().move_out(), 2 * kFilledMiB);
    EXPECT_EQ(free_mib(0), first + static_cast<long long>(kFilledMiB));
    EXPECT_EQ(free_mib(1), second + static_cast<long long>(kFilledMiB));
    expect_done(tenant->worker().move_in(), 2 * kFilledMiB);
    EXPECT_EQ(free_mib(0), first);
    EXPECT_EQ(free_mib(1), second);
    expect_whole(*tenant);
  }
}

TEST_F(MovesOfTwoDevices, TakeTurnsOnTheLinkOfEach) {
  const auto device = this->device({});
  const auto tenant = filled();
  expect_done(tenant->worker().move_out(), 2 * kFilledMiB);
  expect_done(tenant->worker().move_in(), 2 * kFilledMiB);
  tenant->worker().hang_up();
  tenant->program().finish();
  EXPECT_TRUE(comes_true([&] { return device->turns_out() == 0; }));
  EXPECT_GE(device->bytes_on_link(0), 2 * 113 * kMiB);
  EXPECT_EQ(device->bytes_on_link(0), device->bytes_on_link(1));
  EXPECT_EQ(device->bytes_to_host(), device->bytes_to_device());
}

TEST_F(MovesOfTwoDevices, SayTheMostThatStaysOnAnyOfThem) {
  const auto tenant = filled();
  EXPECT_EQ(tenant->worker().move_out().left_bytes, 0u);
  tenant->worker().move_in();
  EXPECT_EQ(tenant->ask("array", "array"), "1");
  EXPECT_EQ(tenant->worker().move_out().left_bytes, kMiB) << "of the second";
  tenant->worker().move_in();
  EXPECT_EQ(tenant->ask("device 0", "on_device"), "0");
  EXPECT_EQ(tenant->ask("array", "array"), "1");
  EXPECT_EQ(tenant->worker().move_out().left_bytes, kMiB) << "of each";
  tenant->worker().move_in();
  EXPECT_EQ(tenant->ask("array", "array"), "1");
  EXPECT_EQ(tenant->worker().move_out().left_bytes, 2 * kMiB) << "of the first";
}

// Another program, without the shim, that leaves 80 MiB of a device.
class Neighbour {
 public:
  Neighbour(std::map<std::string, std::string> environment, int device)
      : program_({kMovingProbe}, plain(std::move(environment))) {
    program_.tell("device " + std::to_string(device));
    EXPECT_TRUE(program_.wait_for("on_device"));
    program_.tell("take_all_but 80");
    EXPECT_TRUE(program_.wait_for("took"));
  }

  void leave() {
    program_.tell("give_back");
    EXPECT_TRUE(program_.wait_for("gave"));
    program_.finish();
  }

 private:
  static std::map<std::string, std::string> plain(std::map<std::string, std::string> environment) {
    environment.erase("LD_PRELOAD");
    return environment;
  }

  Running program_;
};

TEST_F(MovesOfTwoDevices, BringInNeitherHalfWhereOneFindsNoRoom) {
  const auto tenant = filled();
  for (const int full : {1, 0}) {
    SCOPED_TRACE(full);
    expect_done(tenant->worker().move_out(), 2 * kFilledMiB);
    Neighbour neighbour(environment_, full);
    const long long first = free_mib(0);
    const long long second = free_mib(1);
    EXPECT_EQ(tenant->worker().move_in().status,
              static_cast<uint32_t>(MemoryMoveStatus::kNoDeviceMemory));
    EXPECT_EQ(free_mib(0), first);
    EXPECT_EQ(free_mib(1), second);
    neighbour.leave();
    expect_done(tenant->worker().move_in(), 2 * kFilledMiB);
    expect_whole(*tenant);
  }
}

// A child that kept one would keep it open for lambent-device when the parent is gone.
TEST_F(MovesOfTwoDevices, LeaveNoneOfTheirConnectionsToAChild) {
  environment_["LAMBENT_SHIM_GPUS"] = "4";
  for (const char* name : {"ledger.2", "ledger.3"}) {
    ASSERT_TRUE(ledger::create_ledger(folder_ / name, Bytes::mib(2000)).ok());
  }
  const auto device = this->device({.grants_turns = false});  // all wait for their first
  const auto tenant = filled();
  for (const char* number : {"2", "3"}) {
    EXPECT_EQ(tenant->ask(std::string("device ") + number, "on_device"), number);
    tenant->ask("fill", "filled");
  }
  tenant->worker().command(MemoryMessageKind::kMoveOut);
  ASSERT_TRUE(comes_true([&] { return device->connections() == 4; }));
  EXPECT_EQ(tenant->ask("leave_a_child", "left"), "1");
  kill(tenant->program().process(), SIGKILL);
  EXPECT_TRUE(comes_true([&] { return device->connections() == 0; }));
}

TEST_F(MovesOfTwoDevices, PrefetchNeitherHalfWhereOneFindsNoRoom) {
  environment_["LAMBENT_SHIM_MEMORY_MODE"] = "uvm";
  const auto tenant = filled();
  for (const int full : {1, 0}) {
    SCOPED_TRACE(full);
    EXPECT_EQ(tenant->worker().move_out().status, 0u);
    Neighbour neighbour(environment_, full);
    const long long first = free_mib(0);
    const long long second = free_mib(1);
    EXPECT_EQ(tenant->worker().move_in().status,
              static_cast<uint32_t>(MemoryMoveStatus::kNoDeviceMemory));
    EXPECT_EQ(free_mib(0), first);
    EXPECT_EQ(free_mib(1), second);
    neighbour.leave();
    EXPECT_EQ(tenant->worker().move_in().status, 0u);
    expect_whole(*tenant);
  }
}

// The second is full when the first has been prefetched, though it had room before.
TEST_F(MovesOfTwoDevices, TakeBackWhatWasPrefetchedWhereTheOtherHasFilledMeanwhile) {
  environment_["LAMBENT_SHIM_MEMORY_MODE"] = "uvm";
  const auto device = this->device({});
  const auto tenant = filled();
  std::map<std::string, std::string> plain = environment_;
  plain.erase("LD_PRELOAD");
  Running other({kMovingProbe}, plain);
  other.tell("device 1");
  ASSERT_TRUE(other.wait_for("on_device"));
  bool was_in_time = false;
  for (int tries = 0; tries < 10 && !was_in_time; ++tries) {
    EXPECT_EQ(tenant->worker().move_out().status, 0u);
    const long long first = free_mib(0);
    const int wishes = device->wishes();
    device->hold_turns(true);  // a turn is waited for a second
    tenant->worker().command(MemoryMessageKind::kMoveIn);
    ASSERT_TRUE(comes_true([&] { return device->wishes() > wishes; }));
    other.tell("take_all_but 80");
    ASSERT_TRUE(other.wait_for("took"));
    device->hold_turns(false);
    const uint32_t status = tenant->worker().answer().status;
    was_in_time = status != 0;
    if (was_in_time) {
      EXPECT_EQ(status, static_cast<uint32_t>(MemoryMoveStatus::kNoDeviceMemory));
      EXPECT_EQ(free_mib(0), first);
    }
    other.tell("give_back");
    ASSERT_TRUE(other.wait_for("gave"));
  }
  EXPECT_TRUE(was_in_time);
  EXPECT_EQ(tenant->worker().move_in().status, 0u);
  expect_whole(*tenant);
}

TEST_F(MovesOfTwoDevices, TakeOutNeitherHalfWithoutHostMemoryForBoth) {
  const auto device = this->device({.budget = 150 * kMiB});
  const auto tenant = filled();
  const long long first = free_mib(0);
  const long long second = free_mib(1);
  EXPECT_EQ(tenant->worker().move_out().status,
            static_cast<uint32_t>(MemoryMoveStatus::kNoHostMemory));
  EXPECT_EQ(free_mib(0), first);
  EXPECT_EQ(free_mib(1), second);
  expect_whole(*tenant);
}

TEST_F(MovesOfTwoDevices, LeaveBothDevicesEmptyAfterAKillInTheMiddle) {
  const long long first = free_mib(0);
  const long long second = free_mib(1);
  for (const int turns : {1, 4, 7}) {
    SCOPED_TRACE(turns);
    const auto device = this->device({});  // who is killed gives no turn back
    const auto tenant = filled();
    tenant->worker().command(MemoryMessageKind::kMoveOut);
    // A part of either half has been copied, or all of one.
    ASSERT_TRUE(comes_true([&] { return device->turns() >= turns; }));
    kill(tenant->program().process(), SIGKILL);
    EXPECT_EQ(tenant->program().finish().exit_code, 128 + SIGKILL);
    ASSERT_TRUE(comes_true([&] { return free_mib(0) == first && free_mib(1) == second; }));
    std::filesystem::remove(folder_ / "link");
  }
}

TEST_F(Moves, PrefetchManagedMemoryWithoutALease) {
  environment_["LAMBENT_SHIM_MEMORY_MODE"] = "uvm";
  const auto device = this->device({.gives_leases = false});
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.worker().hello().mode, static_cast<uint32_t>(MemoryMode::kManaged));
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  EXPECT_EQ(tenant.ask("graph", "graph"), "1");
  const long long before = free_mib();
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(tenant.worker().move_out().status, 0u);
    EXPECT_GE(free_mib(), before + 113);
    EXPECT_EQ(tenant.worker().move_in().status, 0u);
    EXPECT_EQ(free_mib(), before);
    tenant.ask("check", "checked");
    EXPECT_EQ(tenant.value("broken"), "0");
    EXPECT_EQ(tenant.ask("launch", "launched"), "1");
  }
  EXPECT_GE(device->turns(), 8);
  EXPECT_TRUE(comes_true([&] { return device->turns_out() == 0; }));
}

TEST_F(Moves, LeaveItToTheDriverToBringInManagedMemoryWhereTheyAreToldTo) {
  environment_["LAMBENT_SHIM_MEMORY_MODE"] = "uvm";
  for (const char* way : {"advise", "faults"}) {
    SCOPED_TRACE(way);
    environment_["LAMBENT_SHIM_UVM"] = way;
    Tenant tenant(environment_, listener_);
    EXPECT_EQ(tenant.ask("fill", "filled"), "8");
    EXPECT_EQ(tenant.ask("graph", "graph"), "1");
    const long long before = free_mib();
    for (int turn = 0; turn < 3; ++turn) {
      EXPECT_EQ(tenant.worker().move_out().status, 0u);
      EXPECT_GE(free_mib(), before + 113);
      const MemoryMessage in = tenant.worker().move_in();
      EXPECT_EQ(in.status, 0u);
      EXPECT_EQ(in.bytes, 0u) << "nothing has come in yet";
      EXPECT_GE(free_mib(), before + 113);
      EXPECT_EQ(tenant.ask("launch", "launched"), "1");
      tenant.ask("check", "checked");
      EXPECT_EQ(tenant.value("broken"), "0");
    }
    tenant.worker().hang_up();
    tenant.program().finish();
  }
}

TEST_F(Moves, OfManagedMemoryInWaitUntilTheDeviceHasRoom) {
  environment_["LAMBENT_SHIM_MEMORY_MODE"] = "uvm";
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  EXPECT_EQ(tenant.worker().move_out().status, 0u);
  std::map<std::string, std::string> plain = environment_;
  plain.erase("LD_PRELOAD");
  Running other({kMovingProbe}, plain);
  other.tell("take_all_but 80");
  ASSERT_TRUE(other.wait_for("took"));
  EXPECT_EQ(tenant.worker().move_in().status,
            static_cast<uint32_t>(MemoryMoveStatus::kNoDeviceMemory));
  other.tell("give_back");
  ASSERT_TRUE(other.wait_for("gave"));
  EXPECT_EQ(tenant.worker().move_in().status, 0u);
  tenant.ask("check", "checked");
  EXPECT_EQ(tenant.value("broken"), "0");
}

TEST_F(Moves, WithoutMappedMemoryMoveNothingAndSaySo) {
  environment_["LAMBENT_SHIM_MEMORY_MODE"] = "off";
  Tenant tenant(environment_, listener_);
  EXPECT_EQ(tenant.worker().hello().mode, static_cast<uint32_t>(MemoryMode::kOff));
  EXPECT_EQ(tenant.ask("fill", "filled"), "8");
  const MemoryMessage out = tenant.worker().move_out();
  expect_done(out, 0);
  EXPECT_GE(out.left_bytes, 113 * kMiB);
  expect_done(tenant.worker().move_in(), 0);
  tenant.ask("check", "checked");
  EXPECT_EQ(tenant.value("broken"), "0");
}

}  // namespace
}  // namespace lambent::shim
