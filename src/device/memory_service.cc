#include "device/memory_service.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/packet.h"
#include "device/lease_book.h"
#include "device/lease_maker.h"
#include "domain/limits.h"
#include "protocol/memory_codec.h"

namespace lambent::device {
namespace {

using protocol::LinkDirection;
using protocol::MemoryMessage;
using protocol::MemoryMessageKind;

constexpr size_t kMostClientsPerSandbox = limits::kSandboxProcesses;
constexpr size_t kMostLeasesPerClient = 256;
constexpr uint64_t kLeaseGranularity = 2 << 20;
// What one client, and one sandbox, may have of a turn of the loop.
constexpr int kMessagesPerTurn = 16;
constexpr int kAcceptsPerTurn = 16;

struct Received {
  MemoryMessage message;
  std::vector<OwnedFd> fds;
};

// None: nothing there. An error: the peer is gone, or does not speak the protocol.
Result<std::optional<Received>> receive(int socket) {
  char buffer[sizeof(MemoryMessage)];
  ASSIGN_OR_RETURN(std::optional<Packet> packet, receive_packet(socket, buffer));
  if (!packet) return std::optional<Received>();
  const auto message = protocol::memory_message_from(std::span(buffer, packet->size));
  if (packet->truncated || !message) {
    return Error{ErrorCode::kInvalidArgument, "memory message: not one of this version"};
  }
  return std::optional<Received>(Received{*message, std::move(packet->fds)});
}

struct Client {
  uint64_t sandbox = 0;
  OwnedFd socket;
  loop::Watch watch;
  size_t leases_wanted = 0;  // granted or being made
  std::vector<std::pair<OwnedFd, Bytes>> leases;
  Bytes aside;  // counted, but not given by us
};

struct Sandbox {
  uint32_t device = 0;
  OwnedFd listener;
  loop::Watch watch;
  size_t clients = 0;
};

}  // namespace

struct MemoryService::State {
  State(loop::EventLoop& on, OwnedFd from, MemoryServiceOptions with, std::function<void()> gone)
      : loop(on),
        control(std::move(from)),
        control_gone(std::move(gone)),
        arbiter(with.link),
        book(with.budget),
        maker(on, with.sparse) {
    control_watch =
        loop.watch(control.get(), true, false, [this](loop::Readiness) { read_control(); });
  }

  void read_control();
  void serve_sandbox(const Received& from, OwnedFd listener);
  void forget_sandbox(uint64_t id);
  void accept_clients(uint64_t sandbox);
  void read_client(uint64_t id);
  bool obey(uint64_t id, Client& client, const MemoryMessage& message);
  void want_lease(uint64_t id, Client& client, Bytes bytes);
  void lease_made(uint64_t client_id, uint64_t sandbox, Bytes bytes, Result<OwnedFd> made);
  void return_leases(Client& client);
  void want_aside(Client& client, Bytes bytes);
  void drop_client(uint64_t id);
  void give_turns();

  loop::EventLoop& loop;
  OwnedFd control;
  loop::Watch control_watch;
  std::function<void()> control_gone;
  LinkArbiter arbiter;
  LeaseBook book;
  std::map<uint64_t, Sandbox> sandboxes;
  std::map<uint64_t, Client> clients;
  uint64_t last_client = 0;
  loop::TimerId expiry_timer;
  LeaseMaker maker;  // last: its answers need all of the above
};

void MemoryService::State::read_control() {
  while (true) {
    auto received = receive(control.get());
    if (!received.ok()) {
      control_watch.reset();
      control_gone();
      return;
    }
    if (!received->has_value()) return;
    Received& from = **received;
    if (from.message.kind == MemoryMessageKind::kServeSandbox && from.fds.size() == 1) {
      OwnedFd listener = std::move(from.fds.front());
      serve_sandbox(from, std::move(listener));
    } else if (from.message.kind == MemoryMessageKind::kForgetSandbox) {
      forget_sandbox(from.message.sequence);
    }
  }
}

void MemoryService::State::serve_sandbox(const Received& from, OwnedFd listener) {
  const uint64_t id = from.message.sequence;
  forget_sandbox(id);
  Sandbox& sandbox = sandboxes[id];
  sandbox.device = from.message.process;
  sandbox.listener = std::move(listener);
  sandbox.watch = loop.watch(sandbox.listener.get(), true, false,
                             [this, id](loop::Readiness) { accept_clients(id); });
  book.add_sandbox(id, Bytes(from.message.bytes));
}

void MemoryService::State::forget_sandbox(uint64_t id) {
  const auto found = sandboxes.find(id);
  if (found == sandboxes.end()) return;
  std::vector<uint64_t> its;
  for (const auto& [client_id, client] : clients) {
    if (client.sandbox == id) its.push_back(client_id);
  }
  for (const uint64_t client : its) drop_client(client);
  book.remove_sandbox(id);
  found->second.watch.reset();
  sandboxes.erase(found);
  give_turns();
}

void MemoryService::State::accept_clients(uint64_t id) {
  const auto found = sandboxes.find(id);
  if (found == sandboxes.end()) return;
  Sandbox& sandbox = found->second;
  for (int count = 0; count < kAcceptsPerTurn; ++count) {
    OwnedFd socket(accept4(sandbox.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    if (sandbox.clients >= kMostClientsPerSandbox) continue;  // and so hung up on
    const uint64_t client_id = ++last_client;
    Client& client = clients[client_id];
    client.sandbox = id;
    client.socket = std::move(socket);
    client.watch = loop.watch(client.socket.get(), true, false,
                              [this, client_id](loop::Readiness) { read_client(client_id); });
    ++sandbox.clients;
    arbiter.add(client_id, id, sandbox.device);
  }
}

void MemoryService::State::read_client(uint64_t id) {
  for (int count = 0; count < kMessagesPerTurn; ++count) {
    const auto found = clients.find(id);
    if (found == clients.end()) return;
    const auto received = receive(found->second.socket.get());
    if (received.ok() && !received->has_value()) break;
    if (!received.ok() || !obey(id, found->second, (*received)->message)) {
      drop_client(id);
      break;
    }
  }
  give_turns();
}

// False: it does not keep to the protocol.
bool MemoryService::State::obey(uint64_t id, Client& client, const MemoryMessage& message) {
  const auto direction = static_cast<LinkDirection>(message.direction);
  switch (message.kind) {
    case MemoryMessageKind::kHello:
      return true;
    case MemoryMessageKind::kWantLink:
      return arbiter.want(id, direction, Bytes(message.bytes));
    case MemoryMessageKind::kLinkDone:
      arbiter.done(id, direction);
      return true;
    case MemoryMessageKind::kWantLease:
      if (message.bytes == 0 || message.bytes % kLeaseGranularity != 0) return false;
      want_lease(id, client, Bytes(message.bytes));
      return true;
    case MemoryMessageKind::kReturnLeases:
      return_leases(client);
      return true;
    case MemoryMessageKind::kWantAside:
      if (message.bytes == 0 || message.bytes % kLeaseGranularity != 0) return false;
      want_aside(client, Bytes(message.bytes));
      return true;
    case MemoryMessageKind::kReturnAside: {
      // A predecessor of ours may have granted more.
      const Bytes returned = std::min(Bytes(message.bytes), client.aside);
      client.aside -= returned;
      book.give_back(client.sandbox, returned);
      return true;
    }
    default:
      return false;
  }
}

void MemoryService::State::want_lease(uint64_t id, Client& client, Bytes bytes) {
  if (client.leases_wanted >= kMostLeasesPerClient || !book.lease(client.sandbox, bytes)) {
    MemoryMessage refusal;
    refusal.kind = MemoryMessageKind::kNoLease;
    refusal.bytes = bytes.count;
    (void)send_packet(client.socket.get(), bytes_of(refusal));
    return;
  }
  ++client.leases_wanted;
  maker.make(bytes, [this, id, sandbox = client.sandbox, bytes](Result<OwnedFd> made) {
    lease_made(id, sandbox, bytes, std::move(made));
  });
}

void MemoryService::State::lease_made(uint64_t client_id, uint64_t sandbox, Bytes bytes,
                                      Result<OwnedFd> made) {
  const auto found = clients.find(client_id);
  if (found == clients.end() || !made.ok()) book.give_back(sandbox, bytes);
  if (found == clients.end()) return;
  Client& client = found->second;
  MemoryMessage answer;
  answer.bytes = bytes.count;
  answer.kind = made.ok() ? MemoryMessageKind::kLease : MemoryMessageKind::kNoLease;
  if (!made.ok()) {
    --client.leases_wanted;
    (void)send_packet(client.socket.get(), bytes_of(answer));
    return;
  }
  const int fds[] = {made->get()};
  const bool sent = send_packet(client.socket.get(), bytes_of(answer), fds).ok();
  client.leases.emplace_back(std::move(*made), bytes);
  if (!sent) drop_client(client_id);
}

// They are cut to nothing: whoever still has one mapped has no memory behind it any more, and no
// page goes to another tenant but through the kernel, zeroed.
void MemoryService::State::return_leases(Client& client) {
  for (const auto& [fd, bytes] : client.leases) {
    (void)!ftruncate(fd.get(), 0);
    book.give_back(client.sandbox, bytes);
  }
  client.leases_wanted -= client.leases.size();
  client.leases.clear();
}

void MemoryService::State::want_aside(Client& client, Bytes bytes) {
  MemoryMessage answer;
  answer.bytes = bytes.count;
  answer.kind = MemoryMessageKind::kNoLease;
  if (book.lease(client.sandbox, bytes)) {
    client.aside += bytes;
    answer.kind = MemoryMessageKind::kAsideGranted;
  }
  (void)send_packet(client.socket.get(), bytes_of(answer));
}

void MemoryService::State::drop_client(uint64_t id) {
  const auto found = clients.find(id);
  if (found == clients.end()) return;
  Client& client = found->second;
  return_leases(client);
  book.give_back(client.sandbox, client.aside);
  const auto sandbox = sandboxes.find(client.sandbox);
  if (sandbox != sandboxes.end()) --sandbox->second.clients;
  arbiter.remove(id);
  client.watch.reset();
  clients.erase(found);
}

void MemoryService::State::give_turns() {
  for (const LinkArbiter::Grant& grant : arbiter.take_grants(loop.clock().now())) {
    MemoryMessage message;
    message.kind = MemoryMessageKind::kGrantLink;
    message.direction = static_cast<uint32_t>(grant.direction);
    message.bytes = grant.bytes.count;
    const auto found = clients.find(grant.client);
    // One that cannot be told loses its turn when it is found to be gone, or by its expiry.
    if (found != clients.end()) (void)send_packet(found->second.socket.get(), bytes_of(message));
  }
  loop.cancel(expiry_timer);
  expiry_timer = {};
  const Instant next = arbiter.next_expiry();
  if (next != kNever) expiry_timer = loop.call_at(next, [this] { give_turns(); });
}

MemoryService::MemoryService(loop::EventLoop& loop, OwnedFd control, MemoryServiceOptions options,
                             std::function<void()> control_gone)
    : state_(std::make_unique<State>(loop, std::move(control), options, std::move(control_gone))) {}

MemoryService::~MemoryService() { state_->loop.cancel(state_->expiry_timer); }

}  // namespace lambent::device
