#include "core/http/server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/http/connection.h"

namespace lambent::http {
namespace {

constexpr int kAcceptsPerTurn = 64;
// More than a system's queue holds (net.core.somaxconn, 4096 by default).
constexpr int kTurnsAtTheEnd = 256;
// So many connections beyond the limit are told so; more are closed without a word.
constexpr size_t kRefusedAtOnce = 64;
// At the limit: so many idle ones go at once, and how long they must have been idle, which is also
// how long none is looked for again if there were none.
constexpr size_t kIdleClosedAtOnce = 32;
constexpr Duration kIdleEnough = seconds(1);
// Without free descriptors accepting would fail again at once.
constexpr Duration kAcceptPause = milliseconds(100);

std::string text_of(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return std::string(text) + ":" + std::to_string(ntohs(v4.sin_port));
  }
  if (address.ss_family != AF_INET6) return {};
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  return "[" + std::string(text) + "]:" + std::to_string(ntohs(v6.sin6_port));
}

Peer peer_of(const OwnedFd& connection, Transport transport, const sockaddr_storage& address) {
  Peer peer;
  peer.transport = transport;
  if (transport != Transport::kUnix) {
    peer.address = text_of(address);
    return peer;
  }
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0) {
    peer.user = credentials.uid;
  }
  return peer;
}

}  // namespace

struct Server::State {
  struct Listener {
    OwnedFd fd;
    Transport transport = Transport::kTcp;
    StreamFactory make_stream;
    loop::Watch watch;
  };

  State(loop::EventLoop& the_loop, ServerOptions the_options, Handler the_handler)
      : loop(the_loop),
        options(std::move(the_options)),
        handler(std::move(the_handler)),
        context{loop,
                options,
                handler,
                DateLine(loop.clock()),
                std::make_unique_for_overwrite<char[]>(ConnectionContext::kScratchSize),
                false,
                false,
                [this](Connection& connection) { retire(connection); }} {}

  ~State() {
    loop.cancel(reaper);
    loop.cancel(accept_pause);
  }

  Result<void> listen(OwnedFd listener, Transport transport, StreamFactory make_stream);
  // Whether more may wait.
  bool accept_from(Listener& listener);
  void pause_accepting();
  // Closes those that have been idle longest; false if there are none.
  bool make_room();
  void retire(Connection& connection);

  loop::EventLoop& loop;
  const ServerOptions options;
  const Handler handler;
  ConnectionContext context;
  std::vector<std::unique_ptr<Listener>> listeners;
  std::unordered_map<Connection*, std::unique_ptr<Connection>> connections;
  // Closed ones, which may still be on the stack; destroyed in the next turn.
  std::vector<std::unique_ptr<Connection>> retired;
  loop::TimerId reaper;
  loop::TimerId accept_pause;
  Instant look_again{};  // for idle connections
};

bool Server::State::accept_from(Listener& listener) {
  for (int i = 0; i < kAcceptsPerTurn; i++) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    OwnedFd fd(accept4(listener.fd.get(), reinterpret_cast<sockaddr*>(&address), &length,
                       SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      if (errno == ECONNABORTED || errno == EINTR) continue;
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        if (options.idle_ones_make_room) make_room();
        pause_accepting();
      }
      return false;
    }
    const size_t count = connections.size();
    const bool refused =
        count >= options.max_connections && !(options.idle_ones_make_room && make_room());
    if (refused && count >= options.max_connections + kRefusedAtOnce) continue;
    if (listener.transport != Transport::kUnix) {
      const int on = 1;
      setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    Peer peer = peer_of(fd, listener.transport, address);
    std::unique_ptr<Stream> stream = listener.make_stream(std::move(fd));
    if (stream == nullptr) continue;
    auto connection = std::make_unique<Connection>(context, std::move(stream), std::move(peer));
    Connection& borrowed = *connection;
    connections.emplace(&borrowed, std::move(connection));
    if (refused) borrowed.refuse();
  }
  return true;
}

void Server::State::pause_accepting() {
  for (const auto& listener : listeners) listener->watch.update(false, false);
  loop.cancel(accept_pause);
  accept_pause = loop.call_after(kAcceptPause, [this] {
    for (const auto& listener : listeners) listener->watch.update(true, false);
  });
}

// Looks at all connections, so it makes room for some.
bool Server::State::make_room() {
  const Instant now = loop.now();
  if (now < look_again) return false;
  std::vector<std::pair<Instant, Connection*>> idle;
  for (const auto& [connection, owner] : connections) {
    const Instant since = connection->idle_since();
    if (since != kNever && since + kIdleEnough <= now) idle.emplace_back(since, connection);
  }
  if (idle.empty()) look_again = now + kIdleEnough;
  const size_t most = std::min(idle.size(), kIdleClosedAtOnce);
  std::partial_sort(idle.begin(), idle.begin() + static_cast<ptrdiff_t>(most), idle.end());
  for (size_t i = 0; i < most; ++i) idle[i].second->close_if_idle();
  return most > 0;
}

void Server::State::retire(Connection& connection) {
  const auto found = connections.find(&connection);
  if (found == connections.end()) return;
  if (retired.empty()) {
    reaper = loop.call_after(Duration::zero(), [this] { retired.clear(); });
  }
  retired.push_back(std::move(found->second));
  connections.erase(found);
}

Server::Server(loop::EventLoop& loop, ServerOptions options, Handler handler)
    : state_(std::make_unique<State>(loop, std::move(options), std::move(handler))) {}

Server::~Server() = default;

Result<void> Server::listen(OwnedFd listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return error_from_errno("listen on a socket", errno);
  }
  return state_->listen(std::move(listener),
                        address.ss_family == AF_UNIX ? Transport::kUnix : Transport::kTcp,
                        plain_stream);
}

Result<void> Server::listen_encrypted(OwnedFd listener, StreamFactory encrypt) {
  return state_->listen(std::move(listener), Transport::kTls, std::move(encrypt));
}

Result<void> Server::State::listen(OwnedFd listener_fd, Transport transport,
                                   StreamFactory make_stream) {
  const int flags = fcntl(listener_fd.get(), F_GETFL);
  if (flags < 0 || fcntl(listener_fd.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return error_from_errno("listen on a socket", errno);
  }
  auto listener = std::make_unique<Listener>();
  listener->fd = std::move(listener_fd);
  listener->transport = transport;
  listener->make_stream = std::move(make_stream);
  Listener& borrowed = *listener;
  listener->watch = loop.watch(listener->fd.get(), true, false,
                               [this, &borrowed](loop::Readiness) { accept_from(borrowed); });
  if (!listener->watch.active()) return error_from_errno("watch a listening socket", errno);
  listeners.push_back(std::move(listener));
  return {};
}

void Server::stop_accepting() {
  state_->context.draining = true;
  state_->loop.cancel(state_->accept_pause);
  // Those that wait to be accepted would be reset.
  for (const auto& listener : state_->listeners) {
    for (int turn = 0; turn < kTurnsAtTheEnd && state_->accept_from(*listener); ++turn) {
    }
  }
  state_->listeners.clear();
}

void Server::drain() {
  stop_accepting();
  state_->context.closes_idle = true;
  std::vector<Connection*> all;
  all.reserve(state_->connections.size());
  for (const auto& [connection, owner] : state_->connections) all.push_back(connection);
  for (Connection* connection : all) connection->close_if_idle();
}

std::optional<HandedOverClients> Server::hand_over() {
  HandedOverClients clients;
  std::vector<Connection*> all;
  for (const auto& [connection, owner] : state_->connections) {
    OwnedFd copy = connection->copy_to_hand_over();
    if (!copy.valid()) return std::nullopt;
    const bool rests = connection->idle_since() != kNever;
    (rests ? clients.resting : clients.waiting).push_back(std::move(copy));
    all.push_back(connection);
  }
  for (Connection* connection : all) connection->close(false);
  state_->loop.cancel(state_->accept_pause);
  for (const auto& listener : state_->listeners) {
    listener->watch.reset();
    clients.listeners.push_back(std::move(listener->fd));
  }
  state_->listeners.clear();
  return clients;
}

void Server::take_over(OwnedFd fd, std::string_view received) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  const bool is_unix = getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
                       address.ss_family == AF_UNIX;
  Peer peer = peer_of(fd, is_unix ? Transport::kUnix : Transport::kTcp, address);
  auto connection =
      std::make_unique<Connection>(state_->context, plain_stream(std::move(fd)), std::move(peer));
  Connection& borrowed = *connection;
  state_->connections.emplace(&borrowed, std::move(connection));
  if (!received.empty()) borrowed.consume(received);
}

size_t Server::connection_count() const { return state_->connections.size(); }

size_t Server::open_exchanges() const {
  return static_cast<size_t>(
      std::count_if(state_->connections.begin(), state_->connections.end(),
                    [](const auto& each) { return !each.first->has_sent_all(); }));
}

}  // namespace lambent::http
