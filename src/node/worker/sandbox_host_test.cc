#include "node/worker/sandbox_host.h"
#include "core/domain/limits.h"
#include "node/worker/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "core/base/packet.h"
#include "core/protocol/memory_codec.h"
#include "gpu/ledger/writer.h"
#include "node/worker/testing/testing.h"

namespace lambent::worker {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr SandboxId kSandbox{7};
constexpr InvocationId kInvocation{1, 2};

// As the shim of a process that has device memory.
OwnedFd connect_to_memory(const std::string& path) {
  OwnedFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  protocol::MemoryMessage hello;
  hello.kind = protocol::MemoryMessageKind::kHello;
  EXPECT_TRUE(send_packet(fd.get(), protocol::bytes_of(hello)).ok());
  return fd;
}

bool is_told_to_go_deep(const OwnedFd& process, protocol::MemoryMessage& command) {
  return recv(process.get(), &command, sizeof(command), MSG_DONTWAIT) == sizeof(command) &&
         command.kind == protocol::MemoryMessageKind::kMoveOut &&
         command.depth == static_cast<uint32_t>(protocol::MemoryMoveDepth::kContext);
}

class SandboxHostTest : public testing::Test, public BackendObserver {
 protected:
  void SetUp() override {
    host = std::make_unique<SandboxHost>(SandboxHost::Dependencies{loop, log, launcher},
                                         SandboxSetting{}, folder.path() + "/run");
    launcher.on_exit([this](SandboxId id, const sandbox::Exit& exit) { host->exited(id, exit); });
    spec.id = FunctionId(3);
    spec.name = {kDefaultTenant, "f"};
    spec.memory = Bytes::mib(128);
    launcher.script = [this](FakeRuntime& self, const FakeRuntime::Event& given) {
      runtime = &self;
      event = given;
    };
  }
  void on_ready(SandboxId, Duration, Duration) override { ++readies; }
  void on_answer(SandboxId, HandlerAnswer answer) override {
    answers.push_back(std::move(answer));
    if (after_answer) after_answer();
  }
  void on_end(SandboxEnd end) override { ends.push_back(std::move(end)); }
  void on_memory_moved(SandboxId, const MemoryMove& move) override { moves.push_back(move.out); }
  void on_output(FunctionId function, std::string_view text) override {
    printed += text.size();
    logs.append(function, text, loop.clock().wall_now());
  }
  void start(StageProcessExtras extras = {}) {
    host->start({kSandbox, spec, "/code", DeviceId(0), std::move(extras)}, *this);
  }

  template <typename Condition>
  [[nodiscard]] bool until(Condition done) {
    return turn_until(loop, done);
  }
  // A sandbox that was given an invocation and works on it.
  void start_working() {
    start();
    ASSERT_TRUE(until([&] { return readies == 1; }));
    InvocationRequest request;
    request.id = kInvocation;
    host->deliver(kSandbox, request, seconds(3));
    ASSERT_TRUE(until([&] { return runtime != nullptr; }));
  }

  TemporaryFolder folder;
  FakeClock clock;
  loop::EventLoop loop{clock};
  NullLogSink log;
  FakeLauncher launcher{loop};
  LogStore logs;
  FunctionSpec spec;
  int readies = 0;
  std::vector<HandlerAnswer> answers;
  std::function<void()> after_answer;  // as dispatch, which may give the next at once
  std::vector<SandboxEnd> ends;
  std::vector<bool> moves;  // out?
  size_t printed = 0;
  FakeRuntime* runtime = nullptr;
  FakeRuntime::Event event;
  std::unique_ptr<SandboxHost> host;
};

TEST_F(SandboxHostTest, WhatAnInvocationPrintsLiesBetweenItsStartAndItsReport) {
  start_working();
  runtime->print("hello\n");
  clock.advance(microseconds(12'340));
  runtime->answer(event, "{}");
  ASSERT_TRUE(until([&] { return !answers.empty(); }));
  const std::string id = to_string(kInvocation);
  EXPECT_EQ(answers[0].execution, microseconds(12'340));
  EXPECT_EQ(answers[0].log_tail, "START RequestId: " + id + " Version: $LATEST\nhello\n" +
                                     "END RequestId: " + id + "\nREPORT RequestId: " + id +
                                     "\tDuration: 12.34 ms\tBilled Duration: 13 ms\t" +
                                     "Memory Size: 128 MB\n");
}

TEST_F(SandboxHostTest, AFloodOfOutputIsBoundedInMemoryAndOnlyItsEndIsKept) {
  start_working();
  const std::string line(64 * 1024, 'x');
  constexpr size_t kFlood = 100 * 1024 * 1024;
  const size_t before = printed;
  for (size_t put = 0; put < kFlood;) {
    put += runtime->print(std::string_view(line).substr(0, std::min(line.size(), kFlood - put)));
    loop.run_once(Duration(0));
  }
  runtime->print("the end\n");
  runtime->answer(event, "{}");
  ASSERT_TRUE(until([&] { return !answers.empty(); }));
  EXPECT_GT(printed - before, kFlood);
  EXPECT_LE(answers[0].log_tail.size(), limits::kLogTail.count);
  EXPECT_THAT(answers[0].log_tail, HasSubstr("xxx"
                                             "the end\nEND RequestId"));
  uint64_t kept = 0;
  for (uint64_t offset = 0;;) {
    const auto chunk = logs.read(spec.id, offset, Bytes::mib(1).count);
    if (chunk.text.empty()) break;
    kept += chunk.text.size();
    offset = chunk.next_offset;
  }
  EXPECT_LE(kept, 2 * limits::kLogPerFunction.count);
  EXPECT_GE(kept, limits::kLogPerFunction.count);
}

TEST_F(SandboxHostTest, ANoisySandboxGetsOnlyItsShareOfATurn) {
  start_working();
  ASSERT_GE(fcntl(runtime->output(), F_SETPIPE_SZ, 1024 * 1024), 0);
  while (loop.run_once(Duration(0)), runtime->print(std::string(512 * 1024, 'x')) == 0) continue;
  const size_t before = printed;
  loop.run_once(Duration(0));
  EXPECT_LE(printed - before, 64 * 1024U);
  EXPECT_GT(printed - before, 0U);
}

TEST_F(SandboxHostTest, StatusIsOfTheTenantThatIsAskedFor) {
  start_working();
  const auto all = host->status(Metering::kNone, std::nullopt);
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_THAT(host->status(Metering::kNone, all[0].function.tenant), SizeIs(1));
  EXPECT_THAT(host->status(Metering::kNone, TenantId(77)), IsEmpty());
}

TEST_F(SandboxHostTest, AnAnswerAfterTheTimeOutIsIgnored) {
  start_working();
  host->stop(kSandbox, Error{ErrorCode::kDeadlineExceeded, "Task timed out after 3.00 seconds"},
             "Sandbox.Timeout");
  runtime->answer(event, "too late");
  ASSERT_TRUE(until([&] { return !ends.empty(); }));
  EXPECT_THAT(answers, IsEmpty());
  EXPECT_EQ(ends[0].error_type, "Sandbox.Timeout");
  EXPECT_THAT(ends[0].payload, HasSubstr("Task timed out after 3.00 seconds"));
  EXPECT_THAT(ends[0].log_tail, EndsWith("END RequestId: " + to_string(kInvocation) + "\n"));
  EXPECT_THAT(host->status(Metering::kMemory, std::nullopt), IsEmpty());
}

TEST_F(SandboxHostTest, ARuntimeThatStaysAwayAfterARefusedAnswerGivesWayToAnother) {
  constexpr InvocationId kNext{3, 4};
  start_working();
  runtime->promise(event, Bytes::gib(1).count);
  ASSERT_TRUE(until([&] { return !answers.empty(); }));
  EXPECT_EQ(answers[0].error_type, "Function.ResponseSizeTooLarge");
  InvocationRequest next;
  next.id = kNext;
  next.payload = "the next";
  host->deliver(kSandbox, next, seconds(3));
  clock.advance(runtime_api::kReturnTime);
  ASSERT_TRUE(until([&] { return !ends.empty(); }));
  EXPECT_THAT(launcher.kills, ElementsAre(kSandbox));
  EXPECT_TRUE(ends[0].undelivered) << "it starts again in another one";
  EXPECT_EQ(ends[0].invocation, kNext);
  EXPECT_EQ(ends[0].returned_payload, "the next");
}

TEST_F(SandboxHostTest, ThePeakOfHostMemoryIsThatOfTheInvocationButForTheFirst) {
  auto meter = sandbox::MemoryMeter::make();
  ASSERT_TRUE(meter.ok());
  launcher.memory = &*meter;
  start_working();
  meter->raise(Bytes::mib(40));
  runtime->answer(event, "{}");
  ASSERT_TRUE(until([&] { return answers.size() == 1; }));
  EXPECT_EQ(answers[0].host_memory_peak, Bytes::mib(40)) << "with its start";
  EXPECT_THAT(answers[0].log_tail, EndsWith("Memory Size: 128 MB\tMax Memory Used: 40 MB\n"));
  InvocationRequest next;
  next.id = InvocationId{3, 4};
  host->deliver(kSandbox, next, seconds(3));
  ASSERT_TRUE(until([&] { return event.id == to_string(InvocationId{3, 4}); }));
  meter->raise(Bytes::mib(7) - Bytes(1));
  runtime->answer(event, "{}");
  ASSERT_TRUE(until([&] { return answers.size() == 2; }));
  EXPECT_EQ(answers[1].host_memory_peak, Bytes::mib(7) - Bytes(1));
  EXPECT_THAT(answers[1].log_tail, EndsWith("\tMax Memory Used: 7 MB\n"));
}

TEST_F(SandboxHostTest, WhatIsGivenToOneThatIsBeingStoppedComesBack) {
  start();
  ASSERT_TRUE(until([&] { return readies == 1; }));
  host->stop(kSandbox, Error{ErrorCode::kInternal, "the runtime that it shares ended"},
             "Sandbox.Failure");
  InvocationRequest request;
  request.id = kInvocation;
  request.payload = "unseen";
  host->deliver(kSandbox, request, seconds(3));
  ASSERT_TRUE(until([&] { return !ends.empty(); }));
  EXPECT_TRUE(ends[0].undelivered);
  EXPECT_EQ(ends[0].invocation, kInvocation);
  EXPECT_EQ(ends[0].returned_payload, "unseen");
  EXPECT_EQ(runtime, nullptr);
}

TEST_F(SandboxHostTest, AStartThatIsLostWithTheLauncherIsNoFaultOfTheFunction) {
  launcher.init = [](FakeRuntime&) {};  // it is not ready yet
  start();
  ASSERT_TRUE(until([&] { return launcher.running.size() == 1; }));
  launcher.end(kSandbox, {.signal = 9, .launcher_ended = true});
  ASSERT_TRUE(until([&] { return !ends.empty(); }));
  EXPECT_TRUE(ends[0].undelivered);
  EXPECT_EQ(ends[0].error_type, "Sandbox.Failure");
  EXPECT_EQ(ends[0].error.code, ErrorCode::kUnavailable);
}

TEST_F(SandboxHostTest, WhatRunsWhenTheLauncherEndsIsNotStartedAgain) {
  start_working();
  launcher.end(kSandbox, {.signal = 9, .launcher_ended = true});
  ASSERT_TRUE(until([&] { return !ends.empty(); }));
  EXPECT_FALSE(ends[0].undelivered);
  EXPECT_EQ(ends[0].error_type, "Runtime.ExitError");
}

TEST_F(SandboxHostTest, AProcessWhoseCudaContextBrokeAnswersAndIsReplaced) {
  spec.gpu.memory = Bytes::mib(16);
  start_working();
  ledger::LedgerWriter shim;
  ASSERT_TRUE(shim.attach((folder.path() + "/run/ledger-7").c_str()));
  shim.context_is_broken(700);
  after_answer = [this] {
    InvocationRequest next;
    next.id = InvocationId{3, 4};
    next.payload = "unseen";
    host->deliver(kSandbox, next, seconds(3));
  };
  runtime->answer(event, "the last answer");
  ASSERT_TRUE(until([&] { return !ends.empty(); }));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].payload, "the last answer");
  EXPECT_THAT(answers[0].log_tail, HasSubstr("broken (CUDA error 700)"));
  EXPECT_TRUE(ends[0].undelivered);
  EXPECT_EQ(ends[0].returned_payload, "unseen");
  EXPECT_THAT(ends[0].error.message, HasSubstr("CUDA context is broken"));
}

TEST_F(SandboxHostTest, OneThatMayHaveTwoIsGivenTheNextBeforeItHasAnswered) {
  constexpr InvocationId kNext{3, 4}, kThird{5, 6};
  start({.in_flight = 2});
  ASSERT_TRUE(until([&] { return readies == 1; }));
  const auto give = [&](InvocationId id) {
    InvocationRequest request;
    request.id = id;
    host->deliver(kSandbox, request, seconds(3));
  };
  give(kInvocation);
  ASSERT_TRUE(until([&] { return runtime != nullptr; }));
  const size_t before = printed;
  runtime->print("of the first\n");
  ASSERT_TRUE(until([&] { return printed > before; }));
  clock.advance(milliseconds(10));
  // This runtime asks for no more before it has answered: the second is not seen until then.
  give(kNext);
  runtime->print("of either\n");
  runtime->answer(event, "{}");
  ASSERT_TRUE(until([&] { return event.id == to_string(kNext); }));
  give(kThird);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].invocation, kInvocation);
  EXPECT_EQ(answers[0].execution, milliseconds(10));
  EXPECT_THAT(answers[0].log_tail,
              HasSubstr("of the first\nof either\nEND RequestId: " + to_string(kInvocation)));
  EXPECT_EQ(readies, 1);
  launcher.end(kSandbox, {.signal = 9});
  ASSERT_TRUE(until([&] { return !ends.empty(); }));
  EXPECT_EQ(ends[0].unseen, std::vector<InvocationId>{kThird}) << "it was at work on the second";
  EXPECT_FALSE(ends[0].by_itself) << "others send that signal";
  EXPECT_THAT(ends[0].log_tail, HasSubstr("START RequestId: " + to_string(kNext)));
  EXPECT_THAT(ends[0].log_tail, HasSubstr("of either\n"));
  EXPECT_THAT(ends[0].log_tail, testing::Not(HasSubstr(to_string(kInvocation))));
}

TEST_F(SandboxHostTest, AllThatIsGivenToOneOfTwoInFlightOnItsWayOutIsUnseen) {
  constexpr InvocationId kNext{3, 4}, kThird{5, 6};
  spec.gpu.memory = Bytes::mib(16);
  start({.in_flight = 2});
  ASSERT_TRUE(until([&] { return readies == 1; }));
  const auto give = [&](InvocationId id, const std::string& payload) {
    InvocationRequest request;
    request.id = id;
    request.payload = payload;
    host->deliver(kSandbox, request, seconds(3));
  };
  give(kInvocation, "seen");
  ASSERT_TRUE(until([&] { return runtime != nullptr; }));
  ledger::LedgerWriter shim;
  ASSERT_TRUE(shim.attach((folder.path() + "/run/ledger-7").c_str()));
  shim.context_is_broken(700);
  after_answer = [&] {
    give(kNext, "the second");
    give(kThird, "the third");
  };
  runtime->answer(event, "{}");
  ASSERT_TRUE(until([&] { return !ends.empty(); }));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(ends[0].undelivered);
  EXPECT_EQ(ends[0].unseen, (std::vector<InvocationId>{kNext, kThird}));
  EXPECT_EQ(ends[0].invocation, kNext);
  EXPECT_EQ(ends[0].returned_payload, "the second");
  EXPECT_TRUE(ends[0].context_is_broken);
  EXPECT_FALSE(ends[0].by_itself) << "it was stopped";
}

TEST_F(SandboxHostTest, AContextThatBreaksBeforeTheNextEndIsNotOfTheAnswerBefore) {
  constexpr InvocationId kNext{3, 4};
  spec.gpu.memory = Bytes::mib(16);
  start_working();
  runtime->answer(event, "{}");
  ASSERT_TRUE(until([&] { return !answers.empty(); }));
  InvocationRequest next;
  next.id = kNext;
  host->deliver(kSandbox, next, seconds(3));
  ASSERT_TRUE(until([&] { return event.id == to_string(kNext); }));
  ledger::LedgerWriter shim;
  ASSERT_TRUE(shim.attach((folder.path() + "/run/ledger-7").c_str()));
  shim.context_is_broken(700);
  launcher.end(kSandbox, {.signal = 6});
  ASSERT_TRUE(until([&] { return !ends.empty(); }));
  EXPECT_FALSE(ends[0].context_is_broken) << "nothing was answered with it";
  EXPECT_TRUE(ends[0].by_itself);
}

TEST_F(SandboxHostTest, OutOfMemoryIsToldWithTheLimitThatWasMet) {
  start_working();
  launcher.end(kSandbox, {.signal = 9, .out_of_memory = true, .memory_peak = Bytes::mib(128)});
  ASSERT_TRUE(until([&] { return !ends.empty(); }));
  EXPECT_EQ(ends[0].error_type, "Runtime.OutOfMemory");
  EXPECT_TRUE(ends[0].by_itself);
  EXPECT_THAT(ends[0].payload, HasSubstr("128 MiB"));
  EXPECT_THAT(ends[0].payload, HasSubstr("/tmp"))
      << "what a function writes counts, and not all know";
  EXPECT_EQ(ends[0].host_memory_peak, Bytes::mib(128));
}

TEST_F(SandboxHostTest, ASandboxThatIsStoppedWhileItIsStartedEndsOnce) {
  start();
  host->stop(kSandbox, Error{ErrorCode::kCancelled, "stopped"}, "Sandbox.Failure");
  ASSERT_TRUE(until([&] { return !ends.empty(); }));
  loop.run_once(Duration(0));
  EXPECT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0].error.message, "stopped");
  EXPECT_EQ(readies, 0);
}

TEST_F(SandboxHostTest, AProgramThatListensIsAskedToEndAndKilledAfterItsGrace) {
  spec.kind = FunctionKind::kHttp;
  spec.http.port = 1;                   // where no program listens
  launcher.init = [](FakeRuntime&) {};  // it asks no Runtime API for work
  start();
  ASSERT_TRUE(until([&] { return launcher.running.contains(kSandbox); }));
  host->end(kSandbox, seconds(5), Error{ErrorCode::kCancelled, "stopped"}, "Sandbox.Stopped");
  EXPECT_THAT(launcher.terminations, ElementsAre(kSandbox));
  clock.advance(milliseconds(4'999));
  loop.run_once(Duration(0));
  EXPECT_THAT(launcher.kills, IsEmpty());
  clock.advance(milliseconds(1));
  ASSERT_TRUE(until([&] { return !ends.empty(); }));
  EXPECT_THAT(launcher.kills, ElementsAre(kSandbox));
  EXPECT_EQ(ends[0].error_type, "Sandbox.Stopped");
}

TEST_F(SandboxHostTest, AProgramThatEndsInItsGraceIsNotKilled) {
  spec.kind = FunctionKind::kHttp;
  spec.http.port = 1;
  launcher.init = [](FakeRuntime&) {};  // it asks no Runtime API for work
  start();
  ASSERT_TRUE(until([&] { return launcher.running.contains(kSandbox); }));
  host->end(kSandbox, seconds(5), Error{ErrorCode::kCancelled, "stopped"}, "Sandbox.Stopped");
  launcher.end(kSandbox, {});
  ASSERT_TRUE(until([&] { return !ends.empty(); }));
  EXPECT_EQ(ends[0].error_type, "Sandbox.Stopped");
  clock.advance(seconds(6));
  loop.run_once(Duration(0));
  EXPECT_THAT(launcher.kills, IsEmpty());
}

TEST_F(SandboxHostTest, AProgramThatCannotBeKeptAfterAllHasItsGrace) {
  SandboxHandOver hand_over(launcher, {});
  host = std::make_unique<SandboxHost>(
      SandboxHost::Dependencies{
          .loop = loop, .log = log, .launcher = launcher, .hand_over = &hand_over},
      SandboxSetting{}, folder.path() + "/run");
  const auto program = http::listen_tcp("127.0.0.1", 0);
  ASSERT_TRUE(program.ok());
  spec.kind = FunctionKind::kHttp;
  spec.http.port = http::port_of(*program);
  spec.gpu.memory = Bytes::mib(64);
  launcher.init = [](FakeRuntime&) {};  // it asks no Runtime API for work
  start();
  ASSERT_TRUE(until([&] { return readies == 1; }));
  // One of its processes answers no command.
  const OwnedFd process = connect_to_memory(folder.path() + "/run/memory-7");
  host->move_memory_out(kSandbox, protocol::MemoryMoveDepth::kMemory);
  hand_over.begin();
  host->end(kSandbox, seconds(5), Error{ErrorCode::kCancelled, "drained"}, "Sandbox.Stopped");
  EXPECT_THAT(launcher.terminations, IsEmpty()) << "the move may end soon";
  clock.advance(seconds(2));
  loop.run_once(Duration(0));
  EXPECT_THAT(launcher.terminations, ElementsAre(kSandbox));
  clock.advance(milliseconds(4'999));
  loop.run_once(Duration(0));
  EXPECT_THAT(launcher.kills, IsEmpty());
  clock.advance(milliseconds(1));
  ASSERT_TRUE(until([&] { return !ends.empty(); }));
  EXPECT_THAT(launcher.kills, ElementsAre(kSandbox));
  EXPECT_EQ(ends[0].error.message, "drained");
  host.reset();
}

TEST_F(SandboxHostTest, ADeadlineMovesWhileTheMemoryOfItsInvocationIsAway) {
  spec.gpu.memory = Bytes::mib(64);
  start();
  ASSERT_TRUE(until([&] { return readies == 1; }));
  const auto deliver = [this](uint64_t number) {
    InvocationRequest request;
    request.id = InvocationId{1, number};
    host->deliver(kSandbox, request, seconds(3));
    return until([&] { return event.id == to_string(InvocationId{1, number}); });
  };
  ASSERT_TRUE(deliver(1));
  EXPECT_FALSE(event.deadline_moves);
  runtime->answer(event, "{}");
  ASSERT_TRUE(until([&] { return answers.size() == 1; }));
  host->move_memory_out(kSandbox, protocol::MemoryMoveDepth::kMemory);
  ASSERT_TRUE(deliver(2)) << "while it moves out";
  EXPECT_TRUE(event.deadline_moves);
  ASSERT_TRUE(until([&] { return moves.size() == 1; }));
  runtime->answer(event, "{}");
  ASSERT_TRUE(until([&] { return answers.size() == 2; }));
  ASSERT_TRUE(deliver(3));
  EXPECT_TRUE(event.deadline_moves) << "it is out";
  // One of its processes goes no deeper.
  const OwnedFd process = connect_to_memory(folder.path() + "/run/memory-7");
  host->move_memory_out(kSandbox, protocol::MemoryMoveDepth::kContext);
  protocol::MemoryMessage command;
  ASSERT_TRUE(until([&] { return is_told_to_go_deep(process, command); }));
  command.kind = protocol::MemoryMessageKind::kMoved;
  command.status = static_cast<uint32_t>(protocol::MemoryMoveStatus::kNotSupported);
  ASSERT_TRUE(send_packet(process.get(), protocol::bytes_of(command)).ok());
  ASSERT_TRUE(until([&] { return moves.size() == 2; }));
  runtime->answer(event, "{}");
  ASSERT_TRUE(until([&] { return answers.size() == 3; }));
  ASSERT_TRUE(deliver(4));
  EXPECT_TRUE(event.deadline_moves) << "it is as far out as it was";
  host->move_memory_in(kSandbox);
  command.kind = protocol::MemoryMessageKind::kMoved;
  ++command.sequence;
  command.status = static_cast<uint32_t>(protocol::MemoryMoveStatus::kDone);
  ASSERT_TRUE(send_packet(process.get(), protocol::bytes_of(command)).ok());
  ASSERT_TRUE(until([&] { return moves.size() == 3; }));
  runtime->answer(event, "{}");
  ASSERT_TRUE(until([&] { return answers.size() == 4; }));
  ASSERT_TRUE(deliver(5));
  EXPECT_FALSE(event.deadline_moves);
}

TEST_F(SandboxHostTest, HandlersAndProgramsWithoutGraceAreKilledAtOnce) {
  start();
  ASSERT_TRUE(until([&] { return readies == 1; }));
  host->end(kSandbox, seconds(5), Error{ErrorCode::kCancelled, "stopped"}, "Sandbox.Stopped");
  EXPECT_THAT(launcher.kills, ElementsAre(kSandbox));
  ASSERT_TRUE(until([&] { return ends.size() == 1; }));
  spec.kind = FunctionKind::kHttp;
  spec.http.port = 1;
  launcher.init = [](FakeRuntime&) {};  // it asks no Runtime API for work
  start();
  ASSERT_TRUE(until([&] { return launcher.running.contains(kSandbox); }));
  host->end(kSandbox, Duration::zero(), Error{ErrorCode::kCancelled, "stopped"}, "Sandbox.Stopped");
  EXPECT_THAT(launcher.kills, ElementsAre(kSandbox, kSandbox));
  EXPECT_THAT(launcher.terminations, IsEmpty());
}

}  // namespace
}  // namespace lambent::worker
