// What the tests of executors stand on: a launcher that starts none, and a fixture in whose name a
// test speaks as the program inside.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <deque>
#include <fstream>
#include <functional>
#include <utility>

#include "core/base/packet.h"
#include "node/worker/executor_host.h"
#include "node/worker/testing/testing.h"

namespace lambent::worker {

inline OwnedFd connect_to(const std::string& path) {
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
    protocol::ExecutorMessage message;
    std::vector<OwnedFd> fds;
  };

  void say(const protocol::ExecutorMessage& message, const std::vector<int>& fds = {}) const {
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
      if (says_hello) running[plan.sandbox]->say(protocol::ExecutorHello{.peers = peers});
    });
  }
  void kill(SandboxId id) override {
    if (!running.contains(id)) return;
    ++kills;
    end(id, {.signal = 9, .killed = true});
  }
  void terminate(SandboxId id) override { kill(id); }
  void usage(SandboxId, OnUsage callback) override { callback(Bytes(0)); }
  void sockets(SandboxId, uint32_t, OnSockets) override {}
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
  std::vector<uint32_t> peers;  // that they say they can reach
  std::map<SandboxId, std::unique_ptr<FakeExecutor>> running;

 private:
  loop::EventLoop& loop_;
  OnExit on_exit_;
  sandbox::Capabilities capabilities_;
};

inline OwnedFd memfd_with(const std::string& content, bool sealed) {
  OwnedFd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_TRUE(write_all(fd.get(), content).ok());
  if (sealed) {
    EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW), 0);
  }
  return fd;
}

inline constexpr char kGraph[] = R"({"buffers": [
    {"name": "w", "role": "constant", "datatype": "FP32", "shape": [2], "file": "w.bin"}],
  "steps": []})";

class ExecutorHostTest : public ::testing::Test,
                         public BackendObserver,
                         public DeviceLinks,
                         public ExecutorMemory {
 protected:
  void SetUp() override {
    std::ofstream(folder / "graph.json") << kGraph;
    std::ofstream(folder / "w.bin") << "12345678";
    host = std::make_unique<ExecutorHost>(
        ExecutorHost::Dependencies{loop,
                                   log,
                                   launcher,
                                   &store,
                                   [this](auto work, auto then) {
                                     work();
                                     loop.call_after(Duration(0), std::move(then));
                                     return true;
                                   },
                                   this,
                                   this,
                                   {},
                                   [this](auto work, auto then) {
                                     if (defers_copies) copies.emplace_back(work, then);
                                     return defers_copies;
                                   }},
        setting, folder.path());
    launcher.on_exit([this](SandboxId id, const sandbox::Exit& exit) { host->exited(id, exit); });
    spec.id = FunctionId(3);
    spec.name = {kDefaultTenant, "f"};
    spec.kind = FunctionKind::kKernel;
    spec.handler = "graph.json";
    spec.gpu.memory = Bytes::mib(64);
  }

  void on_ready(SandboxId instance, Duration, Duration) override { readies.push_back(instance); }
  void on_answer(SandboxId, HandlerAnswer answer) override { answers.push_back(std::move(answer)); }
  void on_end(SandboxEnd end) override { ends.push_back(std::move(end)); }
  void on_output(FunctionId, std::string_view text) override { printed += text; }
  void on_memory_moved(SandboxId, const MemoryMove& move) override { moves.push_back(move); }
  void serve(SandboxId executor, const std::vector<DeviceId>&, Bytes most_leased,
             OwnedFd listener) override {
    EXPECT_EQ(most_leased, Bytes(0));
    links[executor] = std::move(listener);
  }
  void forget(SandboxId executor) override { links.erase(executor); }
  void executors_take(DeviceId device, Bytes bytes) override {
    taken[device] = bytes;
    if (when_taken_changes) when_taken_changes();
  }
  bool has_room(DeviceId, Bytes bytes) const override { return !asks_for_room || bytes <= room; }

  void start(SandboxId id, const FunctionSpec& what, const std::string& code, DeviceId device) {
    host->start({id, what, code, device}, *this);
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
  // An instance that is ready for work.
  void instance(SandboxId id) {
    start(id, spec, folder.path(), DeviceId(1));
    ASSERT_TRUE(turn_until(loop, [&] { return !launcher.running.empty(); }));
    ASSERT_TRUE(hears<protocol::AddInstance>().has_value());
    launcher.latest().say(protocol::InstanceReady{id, milliseconds(1)});
    const size_t before = readies.size();
    ASSERT_TRUE(turn_until(loop, [&] { return readies.size() > before; }));
  }
  InvocationId give(SandboxId id, std::string payload = "{}") {
    InvocationRequest request;
    request.id = {9, id.value};
    request.payload = std::move(payload);
    host->deliver(id, request, seconds(3));
    return request.id;
  }
  // What the thread that copies payloads does next, and what follows.
  void copy_next() {
    ASSERT_FALSE(copies.empty());
    auto [work, then] = std::exchange(copies.front(), {});
    copies.pop_front();
    work();
    work = nullptr;
    then();
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
  ExecutorSetting setting;  // before SetUp()
  FunctionSpec spec;
  std::vector<SandboxId> readies;
  std::vector<HandlerAnswer> answers;
  std::vector<SandboxEnd> ends;
  std::vector<MemoryMove> moves;
  std::map<SandboxId, OwnedFd> links;  // where executors ask for turns on the device's link
  std::map<DeviceId, Bytes> taken;     // as told last
  std::function<void()> when_taken_changes;
  bool asks_for_room = false;  // before SetUp()
  Bytes room;                  // that functions leave on devices
  std::string printed;
  bool defers_copies = false;  // long payloads are copied by copy_next(), not at once
  std::deque<std::pair<std::function<void()>, std::function<void()>>> copies;
  std::unique_ptr<ExecutorHost> host;
};

}  // namespace lambent::worker
