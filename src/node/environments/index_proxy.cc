#include "node/environments/index_proxy.h"

#include <arpa/inet.h>
#include <malloc.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/packet.h"
#include "node/environments/proxy_request.h"
#include "node/sandbox/program.h"
#include "node/sandbox/syscalls.h"

namespace lambent::environments {
namespace {

constexpr uint16_t kPort = 3128;
constexpr int kBacklog = 128;
// uv asks for fifty things at once.
constexpr unsigned kMostConnections = 128;
constexpr size_t kMostRefused = 16;
constexpr int kHeadSeconds = 30;
constexpr int kConnectSeconds = 20;
constexpr int kQuietMs = 300'000;
constexpr size_t kStack = size_t{1} << 20;       // of a connection's thread
constexpr rlim_t kMostMemory = rlim_t{4} << 30;  // of addresses
constexpr int kProxyFailure = 125;

void bound(int socket, int seconds) {
  const timeval time{.tv_sec = seconds, .tv_usec = 0};
  (void)setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
  (void)setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
}

bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

// Connects to one of the host's addresses, as the host resolves it; invalid: none answers.
OwnedFd connect_to(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, freeaddrinfo);
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    OwnedFd socket(::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket.valid()) continue;
    bound(socket.get(), kConnectSeconds);
    if (connect(socket.get(), each->ai_addr, each->ai_addrlen) == 0) return socket;
  }
  return {};
}

// Up to and with the first empty line; what came after it goes to `rest`. Empty: there was none.
std::string read_head(int socket, std::string& rest) {
  std::string text;
  std::array<char, 4096> piece;
  while (text.size() < kMostProxyHead) {
    const ssize_t got = recv(socket, piece.data(), piece.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {};
    text.append(piece.data(), static_cast<size_t>(got));
    const size_t end = text.find("\r\n\r\n");
    if (end == std::string::npos) continue;
    rest = text.substr(end + 4);
    text.resize(end + 4);
    return text;
  }
  return {};
}

// False: nothing more comes that way.
bool move_some(int from, int to) {
  std::array<char, 65536> piece;
  const ssize_t got = recv(from, piece.data(), piece.size(), 0);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  return got > 0 && send_all(to, std::string_view(piece.data(), static_cast<size_t>(got)));
}

// Until both sides have ended, or are quiet for long. `both_ways`: else only from the server.
void relay(int client, int server, bool both_ways) {
  bool to_server = both_ways;
  bool to_client = true;
  while (to_client) {
    std::array<pollfd, 2> ready = {
        {{to_server ? client : -1, POLLIN, 0}, {to_client ? server : -1, POLLIN, 0}}};
    const int seen = poll(ready.data(), ready.size(), kQuietMs);
    if (seen < 0 && errno == EINTR) continue;
    if (seen <= 0) return;
    if (ready[0].revents != 0 && !move_some(client, server)) {
      to_server = false;
      shutdown(server, SHUT_WR);
    }
    if (ready[1].revents != 0 && !move_some(server, client)) to_client = false;
  }
}

// By themselves each thread takes as many addresses for its stack as the process may have for its
// own, and on a machine with many cores 64 MiB for a heap: fifty would have all.
void keep_threads_small() {
  (void)mallopt(M_ARENA_MAX, 1);
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  (void)pthread_attr_setstacksize(&attributes, kStack);
  (void)pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

// The process itself: a thread for each connection.
class Proxy {
 public:
  Proxy(std::vector<std::string> places, OwnedFd channel)
      : places_(std::move(places)), channel_(std::move(channel)) {}

  void run() {
    char nothing[1];
    auto packet = receive_packet(channel_.get(), nothing);
    if (!packet.ok() || !*packet || (*packet)->fds.size() != 1) return;
    const OwnedFd listener = std::move((*packet)->fds.front());
    keep_threads_small();
    while (true) {
      OwnedFd client(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client.valid()) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        return;
      }
      if (open_.fetch_add(1) >= kMostConnections) {
        open_.fetch_sub(1);
        continue;  // and so hung up on
      }
      serve_beside(std::move(client));
    }
  }

 private:
  void serve_beside(OwnedFd client) {
    try {
      std::thread([this, socket = std::move(client)] {
        serve(socket.get());
        open_.fetch_sub(1);
      }).detach();
    } catch (const std::system_error&) {
      open_.fetch_sub(1);  // there is no thread for it: hung up on
    }
  }

  void serve(int client) {
    bound(client, kHeadSeconds);
    std::string rest;
    const auto request = parse_proxy_request(read_head(client, rest));
    if (!request.ok()) return answer(client, "400 Bad Request");
    const std::string place = request->place();
    if (std::ranges::find(places_, place) == places_.end()) {
      // The first few are enough to tell.
      if (refused_.fetch_add(1) < kMostRefused) (void)send_packet(channel_.get(), place).ok();
      return answer(client, "403 Forbidden");
    }
    const OwnedFd server = connect_to(request->host, request->port);
    if (!server.valid()) return answer(client, "502 Bad Gateway");
    if (!request->tunnel) {
      if (send_all(server.get(), request->head)) relay(client, server.get(), false);
      return;
    }
    if (!send_all(client, "HTTP/1.1 200 Connection established\r\n\r\n")) return;
    if (send_all(server.get(), rest)) relay(client, server.get(), true);
  }

  static void answer(int client, const std::string& status) {
    (void)send_all(client,
                   "HTTP/1.1 " + status + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  }

  const std::vector<std::string> places_;
  const OwnedFd channel_;
  std::atomic<unsigned> open_ = 0;
  std::atomic<unsigned> refused_ = 0;
};

Result<void> give_up_rights(bool change_user, pid_t parent) {
  const rlimit memory{kMostMemory, kMostMemory};
  (void)setrlimit(RLIMIT_AS, &memory);
  if (change_user) RETURN_IF_ERROR(sandbox::become_nobody());
  RETURN_IF_ERROR(sandbox::drop_capabilities());
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  // A change of user makes the kernel forget it.
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (getppid() != parent) return Error{ErrorCode::kCancelled, "its parent is gone"};
  return {};
}

}  // namespace

Result<IndexProxy> IndexProxy::start(const std::vector<std::string>& places, bool change_user) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return error_from_errno("socketpair", errno);
  }
  OwnedFd ours(ends[0]);
  OwnedFd its(ends[1]);
  const pid_t parent = getpid();
  ASSIGN_OR_RETURN(const sandbox::Cloned cloned, sandbox::clone_process(0, -1));
  if (cloned.pid == 0) {
    prctl(PR_SET_NAME, "lambent-index", 0, 0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    const bool alone = sandbox::close_all_but({its.get()}).ok();
    if (alone && give_up_rights(change_user, parent).ok()) Proxy(places, std::move(its)).run();
    _exit(kProxyFailure);
  }
  return IndexProxy(cloned.pid, std::move(ours));
}

IndexProxy::IndexProxy(IndexProxy&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), channel_(std::move(other.channel_)) {}

IndexProxy::~IndexProxy() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<void> IndexProxy::listen_inside() const {
  RETURN_IF_ERROR(sandbox::bring_loopback_up());
  const OwnedFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener.valid()) return error_from_errno("socket", errno);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kPort);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener.get(), kBacklog) != 0) {
    return error_from_errno("listen for what asks for the index", errno);
  }
  const int descriptor = listener.get();
  return send_packet(channel_.get(), "l", {&descriptor, 1});
}

std::vector<std::string> IndexProxy::refused() const {
  std::vector<std::string> places;
  std::array<char, 512> text;
  while (places.size() < kMostRefused) {
    const ssize_t got = recv(channel_.get(), text.data(), text.size(), MSG_DONTWAIT);
    if (got <= 0) break;
    std::string place(text.data(), static_cast<size_t>(got));
    if (std::ranges::find(places, place) == places.end()) places.push_back(std::move(place));
  }
  return places;
}

}  // namespace lambent::environments
