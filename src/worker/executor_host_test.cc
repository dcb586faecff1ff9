#include "worker/executor_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <fstream>

#include "base/packet.h"
#include "worker/testing.h"

namespace lambent::worker {
namespace {

using protocol::ExecutorMessage;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

OwnedFd connect_to(const std::string& path) {
  OwnedFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  EXPECT_LT(path.size(), sizeof(address.sun_path));
  path.copy(address.sun_path, path.size());
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

// The program inside an executor's sandbox, as a test speaks for it.
struct FakeExecutor {
  struct Heard {
    ExecutorMessage message;
    std::vector<OwnedFd> fds;
  };

  void say(const ExecutorMessage& message, const std::vector<int>& fds = {}) const {
    ASSERT_TRUE(send_packet(socket.get(), protocol::encode(message), fds).ok());
  }
  // The next message, if there is one.
  std::optional<Heard> hear() const {
    std::vector<char> buffer(protocol::kExecutorMessage.count);
    auto packet = receive_packet(socket.get(), buffer);
    if (!packet.ok() || !packet->has_value()) return std::nullopt;
    auto message = protocol::decode_executor_message({buffer.data(), (*packet)->size});
    EXPECT_TRUE(message.ok());
    return Heard{std::move(message).value(), std::move((*packet)->fds)};
  }

  SandboxId id;
  sandbox::LaunchPlan plan;
  OwnedFd socket;
  OwnedFd output;
};

class ExecutorLauncher final : public sandbox::Launcher {
 public:
  explicit ExecutorLauncher(loop::EventLoop& loop) : loop_(loop) {}

  void on_exit(OnExit callback) override { on_exit_ = std::move(callback); }
  void launch(sandbox::LaunchPlan plan, OnStarted callback) override {
    ++launches;
    loop_.call_after(Duration(0), [this, plan, callback] {
      if (refuses) return callback(Error{ErrorCode::kNotFound, "no such program"});
      int ends[2];
      ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
      auto executor = std::make_unique<FakeExecutor>();
      executor->id = plan.sandbox;
      executor->plan = plan;
      executor->output = OwnedFd(ends[1]);
      for (const sandbox::Bind& bind : plan.binds) {
        if (bind.sandbox_path == kExecutorSocket) executor->socket = connect_to(bind.host_path);
      }
      running[plan.sandbox] = std::move(executor);
      sandbox::Started started;
      started.pid = 4711;
      started.output = OwnedFd(ends[0]);
      callback(std::move(started));
      if (says_hello) running[plan.sandbox]->say(protocol::ExecutorHello{});
    });
  }
  void kill(SandboxId id) override {
    if (!running.contains(id)) return;
    ++kills;
    end(id, {.signal = 9, .killed = true});
  }
  void usage(SandboxId, OnUsage callback) override { callback(Bytes(0)); }
  const sandbox::Capabilities& capabilities() const override { return capabilities_; }

  void end(SandboxId id, sandbox::Exit exit) {
    loop_.call_after(Duration(0), [this, id, exit] {
      if (running.erase(id) > 0) on_exit_(id, exit);
    });
  }
  FakeExecutor& latest() { return *running.rbegin()->second; }

  int launches = 0;
  int kills = 0;
  bool refuses = false;
  bool says_hello = true;
  std::map<SandboxId, std::unique_ptr<FakeExecutor>> running;

 private:
  loop::EventLoop& loop_;
  OnExit on_exit_;
  sandbox::Capabilities capabilities_;
};

OwnedFd memfd_with(const std::string& content, bool sealed) {
  OwnedFd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_TRUE(write_all(fd.get(), content).ok());
  if (sealed) {
    EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW), 0);
  }
  return fd;
}

constexpr char kGraph[] = R"({"buffers": [
    {"name": "w", "role": "constant", "datatype": "FP32", "shape": [2], "file": "w.bin"}],
  "steps": []})";

class ExecutorHostTest : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(folder / "graph.json") << kGraph;
    std::ofstream(folder / "w.bin") << "12345678";
    ExecutorHost::Events events;
    events.on_ready = [this](SandboxId seat, Duration, Duration) { readies.push_back(seat); };
    events.on_answer = [this](SandboxId, HandlerAnswer answer) {
      answers.push_back(std::move(answer));
    };
    events.on_end = [this](SandboxEnd end) { ends.push_back(std::move(end)); };
    events.on_output = [this](FunctionId, std::string_view text) { printed += text; };
    events.on_memory_moved = [this](SandboxId, const MemoryMove& move) { moves.push_back(move); };
    host = std::make_unique<ExecutorHost>(
        ExecutorHost::Foundations{loop, log, launcher, &store,
                                  [this](auto work, auto then) {
                                    work();
                                    loop.call_after(Duration(0), std::move(then));
                                    return true;
                                  }},
        ExecutorSetting{}, folder.path(), events);
    launcher.on_exit([this](SandboxId id, const sandbox::Exit& exit) { host->exited(id, exit); });
    spec.id = FunctionId(3);
    spec.name = {kDefaultTenant, "f"};
    spec.kind = FunctionKind::kKernel;
    spec.handler = "graph.json";
    spec.gpu.memory = Bytes::mib(64);
  }

  template <typename Kind>
  std::optional<Kind> hears(std::vector<OwnedFd>* fds = nullptr) {
    std::optional<FakeExecutor::Heard> heard;
    if (!turn_until(loop, [&] { return (heard = launcher.latest().hear()).has_value(); })) {
      return std::nullopt;
    }
    if (fds != nullptr) *fds = std::move(heard->fds);
    if (!std::holds_alternative<Kind>(heard->message)) return std::nullopt;
    return std::get<Kind>(std::move(heard->message));
  }
  // A seat that is ready for work.
  void seat(SandboxId id) {
    host->start(id, spec, folder.path(), DeviceId(1));
    ASSERT_TRUE(turn_until(loop, [&] { return !launcher.running.empty(); }));
    ASSERT_TRUE(hears<protocol::AddSeat>().has_value());
    launcher.latest().say(protocol::SeatReady{id, milliseconds(1)});
    const size_t before = readies.size();
    ASSERT_TRUE(turn_until(loop, [&] { return readies.size() > before; }));
  }
  InvocationId give(SandboxId id, std::string payload = "{}") {
    InvocationRequest request;
    request.id = {9, id.value};
    request.payload = std::move(payload);
    host->give(id, request);
    return request.id;
  }
  protocol::Finished finished(InvocationId invocation) {
    protocol::Finished message;
    message.invocation = invocation;
    message.payload = "answer";
    return message;
  }

  TemporaryFolder folder;
  FakeClock clock;
  loop::EventLoop loop{clock};
  NullLogSink log;
  ExecutorLauncher launcher{loop};
  objects::ObjectStore store{loop, log, [](auto, auto) { return false; }, {}};
  FunctionSpec spec;
  std::vector<SandboxId> readies;
  std::vector<HandlerAnswer> answers;
  std::vector<SandboxEnd> ends;
  std::vector<MemoryMove> moves;
  std::string printed;
  std::unique_ptr<ExecutorHost> host;
};

TEST_F(ExecutorHostTest, AFunctionGetsASeatWithItsFiles) {
  host->start(SandboxId(1), spec, folder.path(), DeviceId(2));
  ASSERT_TRUE(turn_until(loop, [&] { return !launcher.running.empty(); }));
  EXPECT_EQ(launcher.latest().plan.environment.at("CUDA_VISIBLE_DEVICES"), "1");
  std::vector<OwnedFd> fds;
  const auto add = hears<protocol::AddSeat>(&fds);
  ASSERT_TRUE(add.has_value());
  EXPECT_EQ(add->graph, "graph.json");
  EXPECT_THAT(add->files, ElementsAre("graph.json", "w.bin"));
  EXPECT_EQ(add->memory, Bytes::mib(64));
  ASSERT_THAT(fds, SizeIs(2));
  char content[8];
  EXPECT_EQ(pread(fds[1].get(), content, 8, 0), 8);
  EXPECT_EQ(std::string(content, 8), "12345678");
  EXPECT_THAT(readies, IsEmpty());
  EXPECT_EQ(host->status()[0].state, "starting");
  launcher.latest().say(protocol::SeatReady{SandboxId(1), milliseconds(1)});
  ASSERT_TRUE(turn_until(loop, [&] { return !readies.empty(); }));
  EXPECT_EQ(host->status()[0].state, "idle");
}

TEST_F(ExecutorHostTest, FunctionsOfOneTenantShareAnExecutorOnADevice) {
  seat(SandboxId(1));
  seat(SandboxId(2));
  EXPECT_EQ(launcher.launches, 1);
  host->start(SandboxId(3), spec, folder.path(), DeviceId(2));
  ASSERT_TRUE(turn_until(loop, [&] { return launcher.running.size() == 2; }));
}

TEST_F(ExecutorHostTest, ARequestGoesInAndItsAnswerComesOut) {
  seat(SandboxId(1));
  const InvocationId id = give(SandboxId(1), R"({"inputs": []})");
  const auto run = hears<protocol::Run>();
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->payload, R"({"inputs": []})");
  auto message = finished(id);
  message.device_memory_peak = Bytes::mib(5);
  launcher.latest().say(message);
  ASSERT_TRUE(turn_until(loop, [&] { return !answers.empty(); }));
  EXPECT_TRUE(answers[0].succeeded);
  EXPECT_EQ(answers[0].payload, "answer");
  EXPECT_EQ(answers[0].device_memory_peak, Bytes::mib(5));
  EXPECT_THAT(answers[0].log_tail, HasSubstr("REPORT RequestId: " + to_string(id)));
}

TEST_F(ExecutorHostTest, WhatIsLongTravelsInMemory) {
  seat(SandboxId(1));
  const std::string payload(3 << 20, 'p');
  const InvocationId id = give(SandboxId(1), payload);
  std::vector<OwnedFd> fds;
  const auto run = hears<protocol::Run>(&fds);
  ASSERT_TRUE(run && run->payload_attached);
  ASSERT_THAT(fds, SizeIs(1));
  EXPECT_EQ(lseek(fds[0].get(), 0, SEEK_END), off_t{3 << 20});
  auto message = finished(id);
  message.payload_attached = true;
  const OwnedFd answer = memfd_with(std::string(1 << 20, 'a'), true);
  launcher.latest().say(message, {answer.get()});
  ASSERT_TRUE(turn_until(loop, [&] { return !answers.empty(); }));
  EXPECT_EQ(answers[0].payload, std::string(1 << 20, 'a'));
}

TEST_F(ExecutorHostTest, AnAnswerThatIsTooLongFailsInWordsThatHelp) {
  seat(SandboxId(1));
  auto message = finished(give(SandboxId(1)));
  message.payload_attached = true;
  const OwnedFd answer = memfd_with(std::string(limits::kResponsePayload.count + 1, 'a'), true);
  launcher.latest().say(message, {answer.get()});
  ASSERT_TRUE(turn_until(loop, [&] { return !answers.empty(); }));
  EXPECT_FALSE(answers[0].succeeded);
  EXPECT_THAT(answers[0].payload, HasSubstr("Ask for large outputs as objects"));
}

TEST_F(ExecutorHostTest, AnAnswerThatCouldStillChangeIsNotRead) {
  seat(SandboxId(1));
  auto message = finished(give(SandboxId(1)));
  message.payload_attached = true;
  const OwnedFd answer = memfd_with("a", false);
  launcher.latest().say(message, {answer.get()});
  ASSERT_TRUE(turn_until(loop, [&] { return !answers.empty(); }));
  EXPECT_FALSE(answers[0].succeeded);
}

TEST_F(ExecutorHostTest, OutputsBecomeObjectsOfTheTenantAndInputsAreHandedOut) {
  seat(SandboxId(1));
  const InvocationId id = give(SandboxId(1));
  auto message = finished(id);
  message.objects = {{{id, 0}, {DataType::kFp32, {2}}}};
  const OwnedFd object = memfd_with("abcdefgh", true);
  launcher.latest().say(message, {object.get()});
  ASSERT_TRUE(turn_until(loop, [&] { return !answers.empty(); }));
  EXPECT_TRUE(answers[0].succeeded) << answers[0].payload;

  ASSERT_TRUE(hears<protocol::Run>().has_value());
  launcher.latest().say(protocol::OpenObject{{id, 0}});
  std::vector<OwnedFd> fds;
  const auto opened = hears<protocol::ObjectOpened>(&fds);
  ASSERT_TRUE(opened.has_value());
  EXPECT_FALSE(opened->error.has_value());
  EXPECT_EQ(opened->type, (TensorType{DataType::kFp32, {2}}));
  EXPECT_THAT(fds, SizeIs(1));
  launcher.latest().say(protocol::OpenObject{{id, 1}});
  const auto missing = hears<protocol::ObjectOpened>();
  ASSERT_TRUE(missing && missing->error);
  EXPECT_EQ(missing->error->code, ErrorCode::kNotFound);
}

TEST_F(ExecutorHostTest, AnExecutorCannotMakeObjectsOfOthers) {
  seat(SandboxId(1));
  auto message = finished(give(SandboxId(1)));
  message.objects = {{{{1, 1}, 0}, raw_tensor(Bytes(1))}};
  const OwnedFd object = memfd_with("x", true);
  launcher.latest().say(message, {object.get()});
  ASSERT_TRUE(turn_until(loop, [&] { return !answers.empty(); }));
  EXPECT_FALSE(answers[0].succeeded);
  EXPECT_EQ(store.status(kDefaultTenant, {{1, 1}, 0}).error().code, ErrorCode::kNotFound);
}

TEST_F(ExecutorHostTest, AClientsMistakeIsItsAnswerAndTheSeatGoesOn) {
  seat(SandboxId(1));
  auto message = finished(give(SandboxId(1)));
  message.error = Error{ErrorCode::kInvalidArgument, "inputs[0].shape is [2], not [3]"};
  launcher.latest().say(message);
  ASSERT_TRUE(turn_until(loop, [&] { return !answers.empty(); }));
  EXPECT_FALSE(answers[0].succeeded);
  EXPECT_EQ(answers[0].error_type, "Request.Invalid");
  EXPECT_THAT(answers[0].payload, HasSubstr("inputs[0].shape is [2], not [3]"));
  EXPECT_EQ(host->status()[0].state, "idle");
}

TEST_F(ExecutorHostTest, ACrashFailsWhatRanAloneAndNothingElse) {
  seat(SandboxId(1));
  seat(SandboxId(2));
  give(SandboxId(1));
  launcher.end(launcher.latest().id, {.signal = 11});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  EXPECT_EQ(ends[0].sandbox, SandboxId(1));
  EXPECT_FALSE(ends[0].undelivered);
  EXPECT_THAT(ends[0].payload, HasSubstr("signal 11"));
  EXPECT_EQ(ends[0].error_type, "Kernel.Fault");
  EXPECT_EQ(ends[1].error_type, "Sandbox.Failure") << "an idle one is started again when needed";
}

TEST_F(ExecutorHostTest, WhatRanInAnExecutorThatSomebodyKilledStartsAgain) {
  seat(SandboxId(1));
  give(SandboxId(1));
  launcher.end(launcher.latest().id, {.signal = 9});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  EXPECT_TRUE(ends[0].undelivered);
}

TEST_F(ExecutorHostTest, OfSeveralThatRanInACrashAllStartAgain) {
  seat(SandboxId(1));
  seat(SandboxId(2));
  give(SandboxId(1));
  give(SandboxId(2));
  launcher.end(launcher.latest().id, {.signal = 11});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  EXPECT_TRUE(ends[0].undelivered && ends[1].undelivered);

  // Again, each runs alone; and so it shows who it was.
  seat(SandboxId(3));
  seat(SandboxId(4));
  InvocationRequest request;
  request.id = {9, 1};
  host->give(SandboxId(3), request);
  request.id = {9, 2};
  host->give(SandboxId(4), request);
  auto run = hears<protocol::Run>();
  ASSERT_TRUE(run && run->seat == SandboxId(3));
  loop.run_once(Duration(0));
  EXPECT_FALSE(launcher.latest().hear().has_value()) << "the other waits";
  launcher.latest().say(finished({9, 1}));
  run = hears<protocol::Run>();
  ASSERT_TRUE(run && run->seat == SandboxId(4));
  launcher.end(launcher.latest().id, {.signal = 11});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 4; }));
  EXPECT_THAT(answers, SizeIs(1));
  EXPECT_EQ(ends[3].sandbox, SandboxId(4));
  EXPECT_EQ(ends[3].error_type, "Kernel.Fault");
  EXPECT_FALSE(ends[3].undelivered);
}

TEST_F(ExecutorHostTest, OneThatIsBeingStoppedMayHaveBrokenItToo) {
  seat(SandboxId(1));
  seat(SandboxId(2));
  give(SandboxId(1));
  give(SandboxId(2));
  host->stop(SandboxId(1), Error{ErrorCode::kDeadlineExceeded, "too long"}, "Sandbox.Timeout");
  launcher.latest().say(protocol::Broken{{ErrorCode::kInternal, "an illegal address"}});
  launcher.end(launcher.latest().id, {.exit_code = 1});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  EXPECT_EQ(ends[0].error_type, "Sandbox.Timeout");
  EXPECT_TRUE(ends[1].undelivered);
}

TEST_F(ExecutorHostTest, OneThatHangsUpIsAsOneThatCrashes) {
  seat(SandboxId(1));
  seat(SandboxId(2));
  give(SandboxId(1));
  give(SandboxId(2));
  launcher.latest().socket.reset();
  for (int i = 0; i < 5; ++i) loop.run_once(Duration(0));
  EXPECT_THAT(ends, IsEmpty()) << "the launcher may say how it ended";
  clock.advance(seconds(1));
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  EXPECT_TRUE(ends[0].undelivered && ends[1].undelivered);
  seat(SandboxId(3));
  seat(SandboxId(4));
  InvocationRequest request;
  request.id = {9, 1};
  host->give(SandboxId(3), request);
  request.id = {9, 2};
  host->give(SandboxId(4), request);
  EXPECT_TRUE(hears<protocol::Run>().has_value());
  loop.run_once(Duration(0));
  EXPECT_FALSE(launcher.latest().hear().has_value()) << "each runs alone now";
}

TEST_F(ExecutorHostTest, WhenItCannotSayWhoBrokeItAllStartAgain) {
  seat(SandboxId(1));
  seat(SandboxId(2));
  give(SandboxId(1));
  give(SandboxId(2));
  launcher.latest().say(protocol::Broken{{ErrorCode::kInternal, "an illegal address"}});
  launcher.end(launcher.latest().id, {.exit_code = 1});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  EXPECT_TRUE(ends[0].undelivered && ends[1].undelivered);
}

TEST_F(ExecutorHostTest, WhoBrokeTheContextIsToldAndTheOthersStartAgain) {
  seat(SandboxId(1));
  seat(SandboxId(2));
  auto guilty = finished(give(SandboxId(1)));
  give(SandboxId(2));
  guilty.error = Error{ErrorCode::kInternal, "kernel scatter: an illegal address"};
  launcher.latest().say(guilty);
  launcher.latest().say(protocol::Broken{*guilty.error});
  launcher.end(launcher.latest().id, {.exit_code = 1});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_THAT(answers[0].payload, HasSubstr("an illegal address"));
  EXPECT_FALSE(ends[0].undelivered) << "it was idle by then";
  EXPECT_TRUE(ends[1].undelivered);
}

TEST_F(ExecutorHostTest, AHungKernelCostsItsExecutorAndTheOthersStartAgain) {
  seat(SandboxId(1));
  seat(SandboxId(2));
  give(SandboxId(1));
  give(SandboxId(2));
  host->stop(SandboxId(1), Error{ErrorCode::kDeadlineExceeded, "too long"}, "Sandbox.Timeout");
  loop.run_once(Duration(0));
  EXPECT_EQ(launcher.kills, 0);
  clock.advance(seconds(1));
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  EXPECT_EQ(launcher.kills, 1);
  EXPECT_EQ(ends[0].error_type, "Sandbox.Timeout");
  EXPECT_FALSE(ends[0].undelivered);
  EXPECT_TRUE(ends[1].undelivered);
}

TEST_F(ExecutorHostTest, StoppingWhatWasNeverSentLeavesTheExecutorAlone) {
  host->keep(spec, DeviceId(1));
  seat(SandboxId(1));
  host->move_memory(SandboxId(1), true);
  give(SandboxId(1));
  host->stop(SandboxId(1), Error{ErrorCode::kDeadlineExceeded, "its memory did not come"},
             "Sandbox.Failure");
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  clock.advance(seconds(1));
  loop.run_once(Duration(0));
  EXPECT_EQ(launcher.kills, 0);
}

TEST_F(ExecutorHostTest, ACrashWhileASeatIsMadeIsNotBlamedOnWhatRuns) {
  seat(SandboxId(1));
  give(SandboxId(1));
  ASSERT_TRUE(hears<protocol::Run>().has_value());
  host->start(SandboxId(2), spec, folder.path(), DeviceId(1));
  ASSERT_TRUE(hears<protocol::AddSeat>().has_value());
  launcher.end(launcher.latest().id, {.signal = 11});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  EXPECT_TRUE(ends[0].undelivered);
  EXPECT_EQ(ends[1].error_type, "Sandbox.Failure");
}

TEST_F(ExecutorHostTest, WhatEndsInTimeWhenItIsStoppedLeavesTheExecutorAlone) {
  host->keep(spec, DeviceId(1));
  seat(SandboxId(1));
  const InvocationId id = give(SandboxId(1));
  host->stop(SandboxId(1), Error{ErrorCode::kDeadlineExceeded, "too long"}, "Sandbox.Timeout");
  launcher.latest().say(finished(id));
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  EXPECT_THAT(answers, IsEmpty());
  ASSERT_TRUE(hears<protocol::Run>().has_value());
  EXPECT_TRUE(hears<protocol::RemoveSeat>().has_value());
  clock.advance(seconds(1));
  loop.run_once(Duration(0));
  EXPECT_EQ(launcher.kills, 0);
}

TEST_F(ExecutorHostTest, AnIdleSeatGoesWithoutATrace) {
  seat(SandboxId(1));
  host->stop(SandboxId(1), Error{ErrorCode::kCancelled, "idle"}, "Sandbox.Stopped");
  EXPECT_TRUE(hears<protocol::RemoveSeat>().has_value());
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  EXPECT_FALSE(host->has(SandboxId(1)));
}

TEST_F(ExecutorHostTest, MemoryIsMovedByTheExecutor) {
  seat(SandboxId(1));
  host->move_memory(SandboxId(1), true);
  const auto move = hears<protocol::MoveSeat>();
  ASSERT_TRUE(move && move->out);
  protocol::SeatMoved moved;
  moved.seat = SandboxId(1);
  moved.out = true;
  moved.moved = Bytes::mib(7);
  launcher.latest().say(moved);
  ASSERT_TRUE(turn_until(loop, [&] { return moves.size() == 1; }));
  EXPECT_EQ(moves[0].moved, Bytes::mib(7));
}

TEST_F(ExecutorHostTest, WhatIsGivenToASeatThatIsOutWaitsUntilItIsIn) {
  seat(SandboxId(1));
  host->move_memory(SandboxId(1), true);
  ASSERT_TRUE(hears<protocol::MoveSeat>().has_value());
  protocol::SeatMoved moved;
  moved.seat = SandboxId(1);
  moved.out = true;
  launcher.latest().say(moved);
  ASSERT_TRUE(turn_until(loop, [&] { return moves.size() == 1; }));
  give(SandboxId(1), "waits");
  host->move_memory(SandboxId(1), false);
  EXPECT_TRUE(hears<protocol::MoveSeat>().has_value()) << "the request is not ahead of the move";
  moved.out = false;
  launcher.latest().say(moved);
  const auto run = hears<protocol::Run>();
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->payload, "waits");
}

TEST_F(ExecutorHostTest, OneThatDoesNotKeepToTheProtocolIsEnded) {
  seat(SandboxId(1));
  launcher.latest().say(protocol::MoveSeat{SandboxId(1), true});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  seat(SandboxId(2));
  ASSERT_TRUE(send_packet(launcher.latest().socket.get(), "nonsense").ok());
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  EXPECT_EQ(launcher.kills, 2);
}

TEST_F(ExecutorHostTest, ASeatThatCannotBeMadeSaysWhy) {
  host->start(SandboxId(1), spec, folder.path(), DeviceId(1));
  ASSERT_TRUE(turn_until(loop, [&] { return !launcher.running.empty(); }));
  ASSERT_TRUE(hears<protocol::AddSeat>().has_value());
  launcher.latest().say(
      protocol::SeatFailed{SandboxId(1), {ErrorCode::kInvalidArgument, "steps[0]: no kernel f"}});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  EXPECT_EQ(ends[0].error.message, "steps[0]: no kernel f");
  host->start(SandboxId(2), spec, folder / "nowhere", DeviceId(1));
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  EXPECT_THAT(ends[1].error.message, HasSubstr("graph.json"));
}

TEST_F(ExecutorHostTest, WithoutAnExecutorASeatFailsAndTheNextOneTriesAgain) {
  launcher.refuses = true;
  host->start(SandboxId(1), spec, folder.path(), DeviceId(1));
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  EXPECT_EQ(ends[0].error_type, "Sandbox.Failure");
  launcher.refuses = false;
  seat(SandboxId(2));
  EXPECT_EQ(launcher.launches, 2);
}

TEST_F(ExecutorHostTest, AKeptExecutorIsThereBeforeItsFirstFunctionAndReplacedWhenItEnds) {
  host->keep(spec, DeviceId(1));
  ASSERT_TRUE(turn_until(loop, [&] { return !launcher.running.empty(); }));
  host->keep(spec, DeviceId(1));
  for (int i = 0; i < 5; ++i) loop.run_once(Duration(0));
  EXPECT_EQ(launcher.launches, 1);
  launcher.end(launcher.latest().id, {.signal = 9});
  ASSERT_TRUE(turn_until(loop, [&] { return launcher.launches == 2; }));
}

TEST_F(ExecutorHostTest, OneThatNobodyNeedsAnyMoreEndsWithItsLastSeat) {
  host->keep(spec, DeviceId(1));
  seat(SandboxId(1));
  host->drop(spec);
  for (int i = 0; i < 5; ++i) loop.run_once(Duration(0));
  EXPECT_EQ(launcher.kills, 0);
  host->stop(SandboxId(1), Error{ErrorCode::kCancelled, "retired"}, "Sandbox.Stopped");
  ASSERT_TRUE(turn_until(loop, [&] { return launcher.running.empty(); }));
  for (int i = 0; i < 5; ++i) loop.run_once(Duration(0));
  EXPECT_EQ(launcher.launches, 1);
}

TEST_F(ExecutorHostTest, OneThatComesToNothingIsNotTriedForFunctionsThatAreGone) {
  launcher.refuses = true;
  host->keep(spec, DeviceId(1));
  for (int i = 0; i < 5; ++i) loop.run_once(Duration(0));
  host->drop(spec);
  clock.advance(seconds(2));
  for (int i = 0; i < 5; ++i) loop.run_once(Duration(0));
  EXPECT_EQ(launcher.launches, 1);
}

TEST_F(ExecutorHostTest, OneThatComesToNothingIsTriedAgainWithPauses) {
  launcher.refuses = true;
  host->keep(spec, DeviceId(1));
  for (int i = 0; i < 10; ++i) loop.run_once(Duration(0));
  EXPECT_EQ(launcher.launches, 1);
  clock.advance(seconds(1));
  ASSERT_TRUE(turn_until(loop, [&] { return launcher.launches == 2; }));
  clock.advance(seconds(1));
  for (int i = 0; i < 10; ++i) loop.run_once(Duration(0));
  EXPECT_EQ(launcher.launches, 2) << "the next pause is longer";
}

}  // namespace
}  // namespace lambent::worker
