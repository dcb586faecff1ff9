// What a hostile runtime may write to its Runtime API, over a real connection. The session must
// survive, and give every invocation at most one outcome.
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "core/http/answer_sink.h"
#include "node/runtime_api/session.h"

using namespace lambent;

namespace {

// Has enough of an answer after some bytes of it, as a client that leaves.
class ShortSink final : public http::AnswerSink {
 public:
  void begin(std::string_view) override {}
  bool take(std::string_view bytes) override {
    taken_ += bytes.size();
    return !client_is_gone();
  }
  void on_room(std::function<void()>) override {}
  bool client_is_gone() const override { return taken_ > 20; }

 private:
  size_t taken_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  FakeClock clock;
  loop::EventLoop loop(clock);
  auto listener = http::listen_tcp("127.0.0.1", 0);
  if (!listener.ok()) abort();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(http::port_of(*listener));

  std::unique_ptr<runtime_api::Session> session;
  // One that may have two in flight, or as Lambda's runtimes are.
  const size_t in_flight = 1 + size / 2 % 2;
  bool running[2] = {};
  const auto outcome = [&](InvocationId id, std::string, std::string) {
    if (id.low < 2 || id.low - 2 >= in_flight || !running[id.low - 2]) abort();
    running[id.low - 2] = false;
  };
  runtime_api::Callbacks callbacks;
  callbacks.on_ready = [&] {
    if (running[0] || running[1]) abort();
    for (uint64_t i = 0; i < in_flight; ++i) {
      running[i] = true;
      session->give({.id = {1, 2 + i}, .deadline = milliseconds(1), .payload = "{}"});
    }
  };
  callbacks.on_response = outcome;
  callbacks.on_error = outcome;
  // Some answers are wanted in pieces.
  callbacks.sink_of = [size](InvocationId) -> std::shared_ptr<http::AnswerSink> {
    return size % 2 == 0 ? std::make_shared<ShortSink>() : nullptr;
  };
  callbacks.on_init_error = [&](std::string, std::string) {};
  callbacks.on_disconnect = [] {};
  session = std::make_unique<runtime_api::Session>(
      loop, std::move(*listener),
      runtime_api::SessionOptions{.max_response = Bytes(1000), .most_running = in_flight},
      std::move(callbacks));

  const OwnedFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // A reset instead of a farewell: thousands of runs must not use up the ports.
  const linger reset{1, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) abort();
  std::string_view text(reinterpret_cast<const char*>(bytes), size);
  while (!text.empty()) {
    const ssize_t sent = send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) break;
    text.remove_prefix(static_cast<size_t>(sent));
    for (int i = 0; i < 3; i++) loop.run_once(Duration::zero());
  }
  if (size % 2 == 0) shutdown(fd.get(), SHUT_WR);
  for (int i = 0; i < 8; i++) loop.run_once(Duration::zero());
  return 0;
}
