// bare_echo: the limit that an invocation is compared with: an epoll loop that parses nothing.
// With --runtimes N, a request makes the hops of an invocation: client, this front, a runtime (a
// process of its own that waits in recv), this front, client. Without, the front answers itself.
// Runtimes are reached over socket pairs or, with --tcp-runtimes N, over TCP as the Runtime API is.
// usage: bare_echo unix:PATH | tcp [--runtimes N | --tcp-runtimes N]; prints where it listens. One
// small request per recv is assumed, which http_load keeps to. Ends when its standard input is
// closed.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/http/client.h"
#include "core/http/server.h"

using namespace lambent;

namespace {

constexpr char kAnswer[] =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    "Content-Length: 2\r\n\r\n{}";
constexpr size_t kAnswerSize = sizeof kAnswer - 1;

[[noreturn]] void run_runtime(int fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  char bytes[64 * 1024];
  while (recv(fd, bytes, sizeof bytes, 0) > 0) {
    if (send(fd, kAnswer, kAnswerSize, MSG_NOSIGNAL) <= 0) break;
  }
  _exit(0);
}

// Two ends of a connection over the loopback device.
void tcp_pair(int (&fds)[2]) {
  const Result<OwnedFd> listener = http::listen_tcp("127.0.0.1", 0);
  if (!listener.ok()) exit(1);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(http::port_of(*listener));
  fds[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fds[1], reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) exit(1);
  fds[0] = accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC);
  if (fds[0] < 0) exit(1);
  const int on = 1;
  for (const int fd : fds) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

class Front {
 public:
  Front(OwnedFd listener, size_t runtimes, bool tcp)
      : epoll_(epoll_create1(EPOLL_CLOEXEC)), listener_(std::move(listener)) {
    watch(listener_.get());
    watch(STDIN_FILENO);
    for (size_t i = 0; i < runtimes; i++) start_runtime(tcp);
  }

  void run() {
    epoll_event events[256];
    for (;;) {
      const int ready = epoll_wait(epoll_.get(), events, 256, -1);
      for (int i = 0; i < ready; i++) {
        const int fd = events[i].data.fd;
        if (fd == STDIN_FILENO) return;
        if (fd == listener_.get()) {
          const int client = accept4(fd, nullptr, nullptr, SOCK_CLOEXEC);
          if (client >= 0) watch(client);
        } else if (is_runtime(fd)) {
          on_answer(fd);
        } else {
          on_request(fd);
        }
      }
    }
  }

 private:
  void watch(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  }
  void start_runtime(bool tcp) {
    int fds[2];
    if (tcp) {
      tcp_pair(fds);
    } else if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) {
      exit(1);
    }
    if (fork() == 0) {
      close(fds[0]);
      run_runtime(fds[1]);
    }
    close(fds[1]);
    if (client_of_.size() <= static_cast<size_t>(fds[0])) {
      client_of_.resize(static_cast<size_t>(fds[0]) + 1, kNoRuntime);
    }
    client_of_[static_cast<size_t>(fds[0])] = kIdle;
    idle_.push_back(fds[0]);
    watch(fds[0]);
  }
  bool is_runtime(int fd) const {
    const auto index = static_cast<size_t>(fd);
    return index < client_of_.size() && client_of_[index] != kNoRuntime;
  }
  void on_request(int client) {
    const ssize_t got = recv(client, bytes_, sizeof bytes_, 0);
    if (got <= 0) {
      close(client);
    } else if (client_of_.empty()) {
      send(client, kAnswer, kAnswerSize, MSG_NOSIGNAL);
    } else if (idle_.empty()) {
      queue_.push_back({client, std::string(bytes_, static_cast<size_t>(got))});
    } else {
      hand_out(client, bytes_, static_cast<size_t>(got));
    }
  }
  void hand_out(int client, const char* bytes, size_t size) {
    const int runtime = idle_.back();
    idle_.pop_back();
    client_of_[static_cast<size_t>(runtime)] = client;
    send(runtime, bytes, size, MSG_NOSIGNAL);
  }
  void on_answer(int runtime) {
    const ssize_t got = recv(runtime, bytes_, sizeof bytes_, 0);
    if (got <= 0) exit(1);
    send(client_of_[static_cast<size_t>(runtime)], bytes_, static_cast<size_t>(got), MSG_NOSIGNAL);
    client_of_[static_cast<size_t>(runtime)] = kIdle;
    idle_.push_back(runtime);
    if (queue_.empty()) return;
    const Queued next = std::move(queue_.front());
    queue_.pop_front();
    hand_out(next.client, next.bytes.data(), next.bytes.size());
  }

  struct Queued {
    int client;
    std::string bytes;
  };
  static constexpr int kNoRuntime = -2;
  static constexpr int kIdle = -1;
  OwnedFd epoll_;
  OwnedFd listener_;
  std::vector<int> client_of_;  // by a runtime's descriptor
  std::vector<int> idle_;
  std::deque<Queued> queue_;
  char bytes_[64 * 1024];
};

}  // namespace

int main(int argc, char** argv) {
  const std::string where = argc > 1 ? argv[1] : "";
  const std::string kind = argc > 3 ? argv[2] : "";
  const bool tcp = kind == "--tcp-runtimes";
  const size_t runtimes = tcp || kind == "--runtimes" ? strtoull(argv[3], nullptr, 10) : 0;
  Result<OwnedFd> listener = where.starts_with("unix:") ? http::listen_unix(where.substr(5), 0600)
                                                        : http::listen_tcp("127.0.0.1", 0);
  if (!listener.ok()) {
    fprintf(stderr, "bare_echo: %s\n", to_string(listener.error()).c_str());
    return 1;
  }
  const uint16_t port = http::port_of(*listener);
  printf("%s\n", port == 0 ? where.c_str() : ("http://127.0.0.1:" + std::to_string(port)).c_str());
  fflush(stdout);
  Front(std::move(*listener), runtimes, tcp).run();
  if (port == 0) unlink(where.c_str() + 5);
  return 0;
}
