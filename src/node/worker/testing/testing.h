// What the worker's tests share: a launcher whose sandboxes are no processes but small runtimes on
// the test's own loop, which speak the Runtime API as told. Included by tests only; loop thread.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/testing/testing.h"
#include "core/http/server.h"
#include "core/http/testing/testing.h"
#include "core/loop/event_loop.h"
#include "node/sandbox/launcher.h"

namespace lambent::worker {

// Turns the loop until `done`; false if it is not even after half a minute of the machine's time,
// which is not that of the loop's clock.
template <typename Condition>
[[nodiscard]] bool turn_until(loop::EventLoop& loop, Condition done) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!done()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    loop.run_once(milliseconds(10));
  }
  return true;
}

// The program inside one sandbox: asks for work and does what its script says.
class FakeRuntime {
 public:
  struct Event {
    std::string id;
    std::string payload;
    std::string deadline_ms;
    bool deadline_moves = false;
  };
  using Script = std::function<void(FakeRuntime&, const Event&)>;

  FakeRuntime(loop::EventLoop& loop, SandboxId sandbox, uint16_t port, OwnedFd output,
              Script script)
      : sandbox_(sandbox),
        script_(std::move(script)),
        output_(std::move(output)),
        connection_(http::connect_to(port)) {
    watch_ = loop.watch(connection_.get(), true, false, [this](loop::Readiness) { receive(); });
  }

  void ask() { send("GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: h\r\n\r\n"); }
  void answer(const Event& event, std::string_view payload) {
    post("invocation/" + event.id + "/response", payload, "");
    ask();
  }
  // Without asking for more.
  void answer_last(const Event& event, std::string_view payload) {
    post("invocation/" + event.id + "/response", payload, "");
  }
  // The head of an answer that is so large, and nothing of it.
  void promise(const Event& event, uint64_t size) {
    send("POST /2018-06-01/runtime/invocation/" + event.id +
         "/response HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n");
  }
  void fail(const Event& event, std::string_view json, std::string_view type) {
    post("invocation/" + event.id + "/error", json, type);
    ask();
  }
  void fail_init(std::string_view json, std::string_view type) { post("init/error", json, type); }
  // Writes what fits into the pipe; how much that was.
  size_t print(std::string_view text) {
    const ssize_t put = write(output_.get(), text.data(), text.size());
    return put > 0 ? static_cast<size_t>(put) : 0;
  }
  int output() const { return output_.get(); }
  SandboxId sandbox() const { return sandbox_; }

 private:
  void post(const std::string& target, std::string_view body, std::string_view type) {
    send("POST /2018-06-01/runtime/" + target + " HTTP/1.1\r\nHost: h\r\n" +
         (type.empty() ? "" : "Lambda-Runtime-Function-Error-Type: " + std::string(type) + "\r\n") +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body));
  }
  void send(const std::string& text) {
    ASSERT_EQ(::send(connection_.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  void receive() {
    char bytes[16384];
    const ssize_t got = recv(connection_.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got == 0) watch_.reset();
    if (got <= 0) return;
    received_.append(bytes, static_cast<size_t>(got));
    while (take_response()) continue;
  }
  // Takes one whole response from what was received; only an event is of interest.
  bool take_response() {
    const size_t head = received_.find("\r\n\r\n");
    if (head == std::string::npos) return false;
    const size_t length = std::stoul("0" + field("content-length", head));
    if (received_.size() < head + 4 + length) return false;
    const Event event{field("lambda-runtime-aws-request-id", head),
                      received_.substr(head + 4, length), field("lambda-runtime-deadline-ms", head),
                      field("lambent-runtime-deadline", head) == "moves"};
    received_.erase(0, head + 4 + length);
    if (!event.id.empty()) script_(*this, event);
    return true;
  }
  std::string field(std::string_view name, size_t head_size) const {
    std::string head = received_.substr(0, head_size);
    for (char& c : head) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const size_t at = head.find("\r\n" + std::string(name) + ": ");
    if (at == std::string::npos) return "";
    const size_t from = at + name.size() + 4;
    return received_.substr(from, std::min(head.find("\r\n", from), head_size) - from);
  }

  SandboxId sandbox_;
  Script script_;
  OwnedFd output_;
  OwnedFd connection_;
  loop::Watch watch_;
  std::string received_;
};

class FakeLauncher final : public sandbox::Launcher {
 public:
  explicit FakeLauncher(loop::EventLoop& loop) : loop_(loop) {}

  void on_exit(OnExit callback) override { on_exit_ = std::move(callback); }
  void launch(sandbox::LaunchPlan plan, OnStarted callback) override {
    plans.push_back(plan);
    starting_.insert(plan.sandbox);
    loop_.call_after(Duration(0), [this, number = plans.size(), id = plan.sandbox,
                                   done = std::move(callback)] { start(number, id, done); });
  }
  void kill(SandboxId id) override {
    kills.push_back(id);
    if (starting_.contains(id)) cancelled_.insert(id);
    end(id, {.signal = 9, .killed = true});
  }
  // Its program goes on until a test ends it.
  void terminate(SandboxId id) override { terminations.push_back(id); }
  void usage(SandboxId, OnUsage callback) override { callback(Bytes(0)); }
  // Of this machine's network: a test listens where the sandbox's program would.
  void sockets(SandboxId, uint32_t count, OnSockets callback) override {
    loop_.call_after(Duration(0), [count, done = std::move(callback)] {
      std::vector<OwnedFd> made;
      for (uint32_t i = 0; i < count; ++i) {
        made.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      }
      done(std::move(made));
    });
  }
  const sandbox::Capabilities& capabilities() const override { return capabilities_; }

  // The sandbox ends; the worker hears of it in the next turn of the loop, once.
  void end(SandboxId id, sandbox::Exit exit) {
    const auto found = running.find(id);
    if (found == running.end() || !ending_.insert(id).second) return;
    loop_.call_after(Duration(0), [this, id, exit] {
      running.erase(id);
      ending_.erase(id);
      on_exit_(id, exit);
    });
  }

  // What runtimes do when they begin and with each event.
  std::function<void(FakeRuntime&)> init = [](FakeRuntime& runtime) { runtime.ask(); };
  FakeRuntime::Script script = [](FakeRuntime& runtime, const FakeRuntime::Event& event) {
    runtime.answer(event, event.payload);
  };
  // Which launches fail, counted from 1, and how.
  std::map<size_t, Error> failures;
  // What sandboxes use of the host's memory, if it is measured.
  const sandbox::MemoryMeter* memory = nullptr;

  std::vector<sandbox::LaunchPlan> plans;
  std::vector<SandboxId> kills;
  std::vector<SandboxId> terminations;  // it was asked to end
  std::map<SandboxId, std::unique_ptr<FakeRuntime>> running;

 private:
  void start(size_t number, SandboxId id, const OnStarted& done) {
    starting_.erase(id);
    if (cancelled_.erase(id) > 0) return done(Error{ErrorCode::kCancelled, "killed"});
    if (const auto failure = failures.find(number); failure != failures.end()) {
      return done(failure->second);
    }
    auto listener = http::listen_tcp("127.0.0.1", 0);
    int ends[2];
    if (!listener.ok() || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
      return done(Error{ErrorCode::kInternal, "the test's machine is out of descriptors"});
    }
    const uint16_t port = http::port_of(*listener);
    auto runtime = std::make_unique<FakeRuntime>(
        loop_, id, port, OwnedFd(ends[1]),
        [this](FakeRuntime& self, const FakeRuntime::Event& event) { script(self, event); });
    FakeRuntime& started = *runtime;
    running[id] = std::move(runtime);
    sandbox::Started answer;
    answer.pid = static_cast<pid_t>(1000 + id.value);
    answer.runtime_api_listener = std::move(*listener);
    answer.output = OwnedFd(ends[0]);
    if (memory != nullptr) {
      answer.memory = sandbox::MemoryMeter(OwnedFd(dup(memory->file().get())));
    }
    done(std::move(answer));
    init(started);
  }

  loop::EventLoop& loop_;
  OnExit on_exit_;
  std::set<SandboxId> starting_;
  std::set<SandboxId> cancelled_;
  std::set<SandboxId> ending_;
  sandbox::Capabilities capabilities_;
};

}  // namespace lambent::worker
