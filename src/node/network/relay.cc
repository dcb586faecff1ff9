#include "node/network/relay.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "node/network/inner_network.h"
#include "node/network/limits.h"

namespace lambent::network {
namespace {

constexpr uint16_t kFirstPort = 1024;
constexpr size_t kPacketsPerTurn = 64;
constexpr size_t kMovesPerTurn = 4;
constexpr size_t kTriesPerServer = 2;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress socket_address(const End& end) {
  SocketAddress address;
  if (end.address.is_v4()) {
    auto* four = reinterpret_cast<sockaddr_in*>(&address.storage);
    four->sin_family = AF_INET;
    four->sin_port = htons(end.port);
    four->sin_addr.s_addr = htonl(end.address.as_v4());
    address.size = sizeof(sockaddr_in);
  } else {
    auto* six = reinterpret_cast<sockaddr_in6*>(&address.storage);
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(end.port);
    std::memcpy(&six->sin6_addr, end.address.bytes.data(), end.address.bytes.size());
    address.size = sizeof(sockaddr_in6);
  }
  return address;
}

End end_of(const sockaddr_storage& storage) {
  if (storage.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(storage);
    return {IpAddress::v4(ntohl(four.sin_addr.s_addr)), ntohs(four.sin_port)};
  }
  const auto& six = reinterpret_cast<const sockaddr_in6&>(storage);
  return {IpAddress::v6(&six.sin6_addr), ntohs(six.sin6_port)};
}

End own_end(const OwnedFd& socket_fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (!socket_fd.valid() ||
      getsockname(socket_fd.get(), reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return {};
  }
  return end_of(storage);
}

OwnedFd make_socket(const End& to, int type) {
  return OwnedFd(
      socket(to.address.is_v4() ? AF_INET : AF_INET6, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

int error_of(const OwnedFd& socket_fd) {
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(socket_fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

// The far side is told that the connection broke, not that it ended.
void reset_on_close(const OwnedFd& socket_fd) {
  const linger at_once{1, 0};
  if (socket_fd.valid()) {
    setsockopt(socket_fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  }
}

}  // namespace

Relay::Relay(loop::EventLoop& loop, RelayOptions options, InnerSockets inner, OwnedFd refusals)
    : loop_(loop),
      options_(std::move(options)),
      gate_(options_.access, options_.bounds),
      inner_(std::move(inner)),
      refusals_(loop, std::move(refusals)),
      router_v4_(*parse_ip_address(kRouterV4)),
      router_v6_(*parse_ip_address(kRouterV6)),
      listener_v4_(own_end(inner_.listener_v4)),
      listener_v6_(own_end(inner_.listener_v6)),
      buffer_(limits::kNetworkBuffer.count),
      next_port_(kFirstPort) {
  device_watch_ =
      loop_.watch(inner_.device.get(), true, false, [this](loop::Readiness) { read_device(); });
  v4_watch_ = loop_.watch(inner_.listener_v4.get(), true, false,
                          [this](loop::Readiness) { accept_inner(true); });
  if (inner_.listener_v6.valid()) {
    v6_watch_ = loop_.watch(inner_.listener_v6.get(), true, false,
                            [this](loop::Readiness) { accept_inner(false); });
  }
}

Relay::~Relay() {
  loop_.cancel(forget_timer_);
  for (const auto& [port, flow] : flows_) loop_.cancel(flow->timer);
  for (const auto& [number, question] : questions_) loop_.cancel(question->timer);
}

// --- packets ---

void Relay::read_device() {
  for (size_t i = 0; i < kPacketsPerTurn; ++i) {
    const ssize_t got = read(inner_.device.get(), buffer_.data(), buffer_.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      // The sandbox's network is gone, and we shall be soon.
      if (got == 0 || errno != EAGAIN) device_watch_.reset();
      return;
    }
    take({buffer_.data(), static_cast<size_t>(got)});
  }
}

void Relay::take(std::string_view packet) {
  const auto head = read_packet(packet);
  if (!head) return;
  if (head->transport == Transport::kTcp) {
    take_tcp({buffer_.data(), packet.size()}, *head);
  } else if (head->transport == Transport::kUdp) {
    take_udp(packet, *head);
  }
}

void Relay::take_tcp(std::span<char> packet, const PacketHead& head) {
  const std::string_view bytes(packet.data(), packet.size());
  const End& listener = head.is_v4 ? listener_v4_ : listener_v6_;
  if (head.from == listener && head.to.address == router(head.is_v4)) {
    const auto found = flows_.find(head.to.port);
    if (found == flows_.end()) return;
    rewrite_ends(packet, head, found->second->destination, found->second->program);
    return write_device(bytes);
  }
  const auto known = by_ends_.find({head.from, head.to});
  Flow* const flow = known == by_ends_.end() ? nullptr : flows_.at(known->second).get();
  if (head.is_syn && (flow == nullptr || flow->stage == Stage::kEnded)) return begin(bytes, head);
  if (flow == nullptr) return write_device(write_reset(head));
  if (flow->stage == Stage::kConnecting) {
    if (head.is_reset) end(*flow, true);
    return;  // the first packet again
  }
  rewrite_ends(packet, head, {router(head.is_v4), flow->port}, listener);
  write_device(bytes);
}

void Relay::take_udp(std::string_view packet, const PacketHead& head) {
  if (head.to == End{router(head.is_v4), kNamePort}) {
    const size_t end = head.is_v4 ? static_cast<size_t>(static_cast<uint8_t>(packet[2]) << 8 |
                                                        static_cast<uint8_t>(packet[3]))
                                  : packet.size();
    return ask(head, packet.substr(head.payload_at, end - head.payload_at));
  }
  // What a host says to all of its network when it starts is no attempt to reach someone.
  if (options_.route_of(head.to.address) == Route::kBroadcast) return;
  refusals_.add(to_string(head.to) + "/udp", "UDP is closed");
  write_device(write_unreachable(packet, head, true, router(head.is_v4)));
}

// What does not fit is lost, as on every network: TCP sends it again.
void Relay::write_device(std::string_view packet) {
  if (!packet.empty()) (void)!write(inner_.device.get(), packet.data(), packet.size());
}

// --- connections ---

void Relay::begin(std::string_view packet, const PacketHead& head) {
  const Route route = options_.route_of(head.to.address);
  auto why = gate_.refuse(head.to.address, head.to.port, route, loop_.now());
  if (!why && open_ >= limits::kNetworkConnections) {
    why = "more than " + std::to_string(limits::kNetworkConnections) + " connections at one time";
  }
  if (why) {
    refusals_.add(to_string(head.to), *why);
    return write_device(write_reset(head));
  }
  if (route == Route::kNone) {
    return write_device(write_unreachable(packet, head, false, router(head.is_v4)));
  }
  Flow& flow = add_flow(head);
  flow.first_packet = std::string(packet);
  flow.outer = make_socket(head.to, SOCK_STREAM);
  if (!flow.outer.valid()) return refuse_connection(flow, errno);
  const int one = 1;
  setsockopt(flow.outer.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  const SocketAddress address = socket_address(head.to);
  if (connect(flow.outer.get(), address.get(), address.size) != 0 && errno != EINPROGRESS) {
    return refuse_connection(flow, errno);
  }
  const uint16_t port = flow.port;
  flow.outer_watch = loop_.watch(flow.outer.get(), false, true,
                                 [this, port](loop::Readiness) { outer_ready(port); });
  flow.timer = loop_.call_after(limits::kNetworkConnectTimeout, [this, port] {
    const auto found = flows_.find(port);
    if (found != flows_.end() && found->second->stage != Stage::kOpen) end(*found->second, true);
  });
}

Relay::Flow& Relay::add_flow(const PacketHead& head) {
  const auto key = std::pair(head.from, head.to);
  if (const auto old = by_ends_.find(key); old != by_ends_.end()) {
    flows_.erase(old->second);
    by_ends_.erase(old);
  }
  while (flows_.size() >= limits::kNetworkKnownFlows) {
    const auto oldest = std::ranges::min_element(flows_, [](const auto& one, const auto& other) {
      const bool has_ended = one.second->stage == Stage::kEnded;
      if (has_ended != (other.second->stage == Stage::kEnded)) return has_ended;
      return one.second->ended_at < other.second->ended_at;
    });
    by_ends_.erase({oldest->second->program, oldest->second->destination});
    flows_.erase(oldest);
  }
  // In turn, so that the sandbox's kernel has forgotten the connection that had a port before.
  while (flows_.contains(next_port_)) {
    next_port_ = next_port_ == UINT16_MAX ? kFirstPort : static_cast<uint16_t>(next_port_ + 1);
  }
  auto flow = std::make_unique<Flow>();
  flow->port = next_port_;
  next_port_ = next_port_ == UINT16_MAX ? kFirstPort : static_cast<uint16_t>(next_port_ + 1);
  flow->program = head.from;
  flow->destination = head.to;
  Flow& added = *flow;
  by_ends_[key] = added.port;
  flows_[added.port] = std::move(flow);
  ++open_;
  return added;
}

void Relay::outer_ready(uint16_t port) {
  Flow& flow = *flows_.at(port);
  if (flow.stage == Stage::kOpen) return pump(port);
  if (flow.stage != Stage::kConnecting) return;
  if (const int error = error_of(flow.outer); error != 0) return refuse_connection(flow, error);
  flow.stage = Stage::kOpening;
  flow.outer_watch.reset();
  const auto head = read_packet(flow.first_packet);
  rewrite_ends({flow.first_packet.data(), flow.first_packet.size()}, *head,
               {router(head->is_v4), port}, head->is_v4 ? listener_v4_ : listener_v6_);
  write_device(flow.first_packet);
  flow.first_packet = {};
}

// As the destination, or the way there, refused it.
void Relay::refuse_connection(Flow& flow, int error_number) {
  const auto head = read_packet(flow.first_packet);
  const bool by_host = error_number == ECONNREFUSED || error_number == ECONNRESET;
  write_device(by_host ? write_reset(*head)
                       : write_unreachable(flow.first_packet, *head, false, router(head->is_v4)));
  end(flow, true);
}

void Relay::accept_inner(bool four) {
  const OwnedFd& listener = four ? inner_.listener_v4 : inner_.listener_v6;
  for (size_t i = 0; i < kPacketsPerTurn; ++i) {
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    OwnedFd accepted(accept4(listener.get(), reinterpret_cast<sockaddr*>(&peer), &size,
                             SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!accepted.valid()) return;
    const End from = end_of(peer);
    const auto found = flows_.find(from.port);
    // A program that connects to the listener by itself stands for no destination.
    if (from.address != router(four) || found == flows_.end() ||
        found->second->stage != Stage::kOpening) {
      continue;
    }
    Flow& flow = *found->second;
    loop_.cancel(flow.timer);
    const int one = 1;
    setsockopt(accepted.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    flow.inner = std::move(accepted);
    flow.stage = Stage::kOpen;
    const uint16_t port = flow.port;
    const auto look = [this, port](loop::Watch Flow::*watch) {
      return [this, port, watch](loop::Readiness ready) {
        pump(port);
        const auto there = flows_.find(port);
        if (!ready.hung_up || there == flows_.end()) return;
        // It would be reported again and again; the other side's readiness moves what is left.
        if (there->second->stage == Stage::kOpen) (there->second.get()->*watch).reset();
      };
    };
    flow.inner_watch = loop_.watch(flow.inner.get(), true, false, look(&Flow::inner_watch));
    flow.outer_watch = loop_.watch(flow.outer.get(), true, false, look(&Flow::outer_watch));
  }
}

void Relay::pump(uint16_t port) {
  const auto found = flows_.find(port);
  if (found == flows_.end() || found->second->stage != Stage::kOpen) return;
  Flow& flow = *found->second;
  if (!move(flow.inner.get(), flow.outer.get(), flow.out) ||
      !move(flow.outer.get(), flow.inner.get(), flow.in)) {
    return end(flow, true);
  }
  if (flow.out.ended && flow.in.ended) return end(flow, false);
  watch_both(flow);
}

bool Relay::move(int from, int to, Direction& direction) {
  const auto give = [&](std::string_view bytes) -> ssize_t {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t now = send(to, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (now < 0 && errno == EINTR) continue;
      if (now < 0) return errno == EAGAIN ? static_cast<ssize_t>(sent) : -1;
      sent += static_cast<size_t>(now);
    }
    return static_cast<ssize_t>(sent);
  };
  if (!direction.rest.empty()) {
    const ssize_t sent = give(direction.rest);
    if (sent < 0) return false;
    direction.rest.erase(0, static_cast<size_t>(sent));
  }
  for (size_t i = 0; i < kMovesPerTurn && direction.rest.empty() && !direction.ended; ++i) {
    const ssize_t got = recv(from, buffer_.data(), buffer_.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) {
      shutdown(to, SHUT_WR);
      direction.ended = true;
      break;
    }
    const std::string_view bytes(buffer_.data(), static_cast<size_t>(got));
    const ssize_t sent = give(bytes);
    if (sent < 0) return false;
    direction.rest = std::string(bytes.substr(static_cast<size_t>(sent)));
  }
  return true;
}

void Relay::watch_both(Flow& flow) {
  const auto wants = [](const Direction& from_it, const Direction& to_it, loop::Watch& watch) {
    if (!watch.active()) return;
    watch.update(from_it.rest.empty() && !from_it.ended, !to_it.rest.empty());
  };
  wants(flow.out, flow.in, flow.inner_watch);
  wants(flow.in, flow.out, flow.outer_watch);
}

// Its ends are known for a while: the sandbox's kernel says good-bye.
void Relay::end(Flow& flow, bool broken) {
  if (flow.stage == Stage::kEnded) return;
  loop_.cancel(flow.timer);
  flow.stage = Stage::kEnded;
  flow.ended_at = loop_.now();
  flow.inner_watch.reset();
  flow.outer_watch.reset();
  if (broken) {
    reset_on_close(flow.inner);
    reset_on_close(flow.outer);
  }
  flow.inner.reset();
  flow.outer.reset();
  flow.out = {};
  flow.in = {};
  flow.first_packet = {};
  if (--open_; flows_.size() == 1 || forget_timer_ == loop::TimerId()) {
    loop_.cancel(forget_timer_);
    forget_timer_ = loop_.call_after(limits::kNetworkFlowLinger, [this] { forget_ended(); });
  }
}

void Relay::forget_ended() {
  forget_timer_ = {};
  const Instant before = loop_.now() - limits::kNetworkFlowLinger;
  for (auto at = flows_.begin(); at != flows_.end();) {
    const Flow& flow = *at->second;
    if (flow.stage != Stage::kEnded || flow.ended_at > before) {
      ++at;
      continue;
    }
    by_ends_.erase({flow.program, flow.destination});
    at = flows_.erase(at);
  }
  if (flows_.size() == open_) return;
  forget_timer_ = loop_.call_after(limits::kNetworkFlowLinger, [this] { forget_ended(); });
}

// --- names ---

void Relay::ask(const PacketHead& head, std::string_view payload) {
  auto read = parse_name_question(payload);
  if (!read.ok() || questions_.size() >= limits::kNetworkQuestions) return;
  const uint64_t number = next_question_++;
  auto& question = *(questions_[number] = std::make_unique<Question>());
  question.asked = std::move(*read);
  question.program = head.from;
  question.server_inside = head.to;
  const std::string& name = question.asked.name;
  if (!gate_.may_ask(name)) {
    refusals_.add(name, "not in the function's network list");
    return answer(number, NameOutcome::kUnknown, {});
  }
  if (question.asked.type != kTypeV4 && question.asked.type != kTypeV6) {
    return answer(number, NameOutcome::kAnswered, {});
  }
  try_server(number);
}

void Relay::try_server(uint64_t number) {
  Question& question = *questions_.at(number);
  const size_t servers = options_.name_servers.size();
  question.watch.reset();
  loop_.cancel(question.timer);
  if (question.tries >= servers * kTriesPerServer) {
    return answer(number, NameOutcome::kServerFailed, {});
  }
  const End& server = options_.name_servers[question.tries++ % servers];
  question.id = options_.random();
  question.timer = loop_.call_after(limits::kNameTimeout, [this, number] { try_server(number); });
  question.socket = make_socket(server, SOCK_DGRAM);
  const SocketAddress address = socket_address(server);
  const std::string bytes = write_name_question(question.asked, question.id);
  if (!question.socket.valid() ||
      connect(question.socket.get(), address.get(), address.size) != 0 ||
      send(question.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) {
    loop_.cancel(question.timer);
    question.timer = loop_.call_after(Duration(0), [this, number] { try_server(number); });
    return;
  }
  question.watch = loop_.watch(question.socket.get(), true, false,
                               [this, number](loop::Readiness) { hear_server(number); });
}

void Relay::hear_server(uint64_t number) {
  Question& question = *questions_.at(number);
  const ssize_t got = recv(question.socket.get(), buffer_.data(), buffer_.size(), 0);
  if (got < 0) {
    if (errno != EAGAIN && errno != EINTR) try_server(number);  // the server is closed
    return;
  }
  const auto heard = parse_name_answer({buffer_.data(), static_cast<size_t>(got)});
  if (!heard.ok() || heard->id != question.id || heard->question.name != question.asked.name ||
      heard->question.type != question.asked.type) {
    return;  // not what we asked for
  }
  if (heard->outcome == NameOutcome::kServerFailed) return try_server(number);
  std::vector<NamedAddress> open;
  for (NamedAddress each : heard->addresses) {
    const Route route = options_.route_of(each.address);
    if (const auto why = gate_.refuse_answer(each.address, route)) {
      refusals_.add(question.asked.name, "its address " + to_string(each.address) + " is " + *why);
      continue;
    }
    if (route == Route::kNone) continue;  // IPv6, on a host that has none
    each.life = gate_.learn(question.asked.name, each.address, each.life, loop_.now());
    open.push_back(each);
  }
  answer(number, heard->outcome, open);
}

void Relay::answer(uint64_t number, NameOutcome outcome,
                   const std::vector<NamedAddress>& addresses) {
  const auto found = questions_.find(number);
  Question& question = *found->second;
  loop_.cancel(question.timer);
  write_device(write_udp(question.server_inside, question.program,
                         write_name_answer(question.asked, outcome, addresses)));
  questions_.erase(found);
}

}  // namespace lambent::network
