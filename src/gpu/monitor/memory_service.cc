#include "gpu/monitor/memory_service.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/base/packet.h"
#include "core/base/process.h"
#include "core/domain/limits.h"
#include "core/protocol/memory_codec.h"
#include "gpu/monitor/lease_maker.h"
#include "gpu/monitor/lease_table.h"

namespace lambent::monitor {
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

// What a process has on the host.
struct Held {
  std::vector<std::pair<OwnedFd, Bytes>> leases;
  Bytes offloaded;  // counted, but not given by us
  Bytes claimed;    // leases of a daemon before us

  Bytes leased() const {
    Bytes sum = claimed;
    for (const auto& lease : leases) sum += lease.second;
    return sum;
  }
  bool is_something() const {
    return !leases.empty() || offloaded > Bytes(0) || claimed > Bytes(0);
  }
};

struct Client {
  uint64_t sandbox = 0;
  pid_t process = 0;
  OwnedFd socket;
  loop::Watch watch;
  size_t leases_wanted = 0;  // granted or being made
  Held held;
};

// A process that goes on while its connection has ended: it may have closed a descriptor of which
// it knows nothing, and still has its memory in what it holds.
struct Orphan {
  uint64_t sandbox = 0;
  OwnedFd process;
  loop::Watch watch;
  Held held;
};

bool has_hung_up(const OwnedFd& socket) {
  pollfd end{socket.get(), 0, 0};
  return poll(&end, 1, 0) == 1 && (end.revents & POLLHUP) != 0;
}

// A client takes turns on the link of each of its devices: as so many clients of the arbiter.
constexpr uint32_t kMostDevices = protocol::kMostDevicesOfSandbox;
LinkArbiter::ClientId on_device(uint64_t client, uint32_t device) {
  return client * kMostDevices + device;
}

struct Sandbox {
  std::vector<uint32_t> devices;
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
        lease_table(with.budget),
        maker(on, with.sparse) {
    control_watch =
        loop.watch(control.get(), true, false, [this](loop::Readiness) { read_control(); });
  }

  void read_control();
  void serve_on_device_too(const MemoryMessage& message);
  void serve_sandbox(const Received& from, OwnedFd listener);
  void forget_sandbox(uint64_t id);
  void accept_clients(uint64_t sandbox);
  void read_client(uint64_t id);
  bool obey(uint64_t id, Client& client, const MemoryMessage& message);
  void want_lease(uint64_t id, Client& client, Bytes bytes);
  void lease_made(uint64_t client_id, uint64_t sandbox, Bytes bytes, Result<OwnedFd> made);
  void return_leases(uint64_t sandbox, Held& held);
  void return_all(uint64_t sandbox, Held& held);
  void want_offloaded(Client& client, Bytes bytes);
  void hang_up(uint64_t id);
  void drop_client(uint64_t id);
  void keep_for_process(Client& client);
  void adopt(Client& client, const MemoryMessage& hello);
  void adopt_from_orphan(Client& client, const MemoryMessage& hello);
  void has_ended(pid_t process);
  void give_turns();

  loop::EventLoop& loop;
  OwnedFd control;
  loop::Watch control_watch;
  std::function<void()> control_gone;
  LinkArbiter arbiter;
  LeaseTable lease_table;
  std::map<uint64_t, Sandbox> sandboxes;
  // Of the sandbox that is named next.
  uint64_t announced = 0;
  std::vector<uint32_t> devices_announced;
  std::map<uint64_t, Client> clients;
  std::map<pid_t, Orphan> orphans;
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
    } else if (from.message.kind == MemoryMessageKind::kServeOnDeviceToo) {
      serve_on_device_too(from.message);
    } else if (from.message.kind == MemoryMessageKind::kForgetSandbox) {
      forget_sandbox(from.message.sequence);
    }
  }
}

void MemoryService::State::serve_on_device_too(const MemoryMessage& message) {
  if (std::exchange(announced, message.sequence) != message.sequence) devices_announced.clear();
  if (devices_announced.size() + 1 < kMostDevices) devices_announced.push_back(message.process);
}

void MemoryService::State::serve_sandbox(const Received& from, OwnedFd listener) {
  const uint64_t id = from.message.sequence;
  forget_sandbox(id);
  Sandbox& sandbox = sandboxes[id];
  sandbox.devices = {from.message.process};
  if (announced == id) {
    sandbox.devices.insert(sandbox.devices.end(), devices_announced.begin(),
                           devices_announced.end());
  }
  devices_announced.clear();
  sandbox.listener = std::move(listener);
  sandbox.watch = loop.watch(sandbox.listener.get(), true, false,
                             [this, id](loop::Readiness) { accept_clients(id); });
  lease_table.add_sandbox(id, Bytes(from.message.bytes));
}

void MemoryService::State::forget_sandbox(uint64_t id) {
  const auto found = sandboxes.find(id);
  if (found == sandboxes.end()) return;
  std::vector<uint64_t> its;
  for (const auto& [client_id, client] : clients) {
    if (client.sandbox == id) its.push_back(client_id);
  }
  for (const uint64_t client : its) drop_client(client);
  std::vector<pid_t> its_orphans;
  for (const auto& [process, orphan] : orphans) {
    if (orphan.sandbox == id) its_orphans.push_back(process);
  }
  for (const pid_t process : its_orphans) has_ended(process);
  lease_table.remove_sandbox(id);
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
    client.process = process_behind(socket);
    client.socket = std::move(socket);
    client.watch = loop.watch(client.socket.get(), true, false,
                              [this, client_id](loop::Readiness) { read_client(client_id); });
    ++sandbox.clients;
    for (uint32_t i = 0; i < sandbox.devices.size(); ++i) {
      arbiter.add(on_device(client_id, i), id, sandbox.devices[i]);
    }
  }
}

void MemoryService::State::read_client(uint64_t id) {
  for (int count = 0; count < kMessagesPerTurn; ++count) {
    const auto found = clients.find(id);
    if (found == clients.end()) return;
    const auto received = receive(found->second.socket.get());
    if (received.ok() && !received->has_value()) break;
    // No message of a client has descriptors: who sends some wants them to be closed here.
    if (!received.ok() || !(*received)->fds.empty() ||
        !obey(id, found->second, (*received)->message)) {
      hang_up(id);
      break;
    }
  }
  give_turns();
}

// False: it does not keep to the protocol.
bool MemoryService::State::obey(uint64_t id, Client& client, const MemoryMessage& message) {
  const auto direction = static_cast<LinkDirection>(message.direction);
  // A program outside a sandbox may see more devices than were named: those take turns as the
  // first.
  const bool is_named = message.device < sandboxes.at(client.sandbox).devices.size();
  const LinkArbiter::ClientId on_link = on_device(id, is_named ? message.device : 0);
  switch (message.kind) {
    case MemoryMessageKind::kHello:
      adopt(client, message);
      return true;
    case MemoryMessageKind::kWantLink:
      return arbiter.want(on_link, direction, Bytes(message.bytes));
    case MemoryMessageKind::kLinkDone:
      arbiter.done(on_link, direction);
      return true;
    case MemoryMessageKind::kWantLease:
      if (message.bytes == 0 || message.bytes % kLeaseGranularity != 0) return false;
      want_lease(id, client, Bytes(message.bytes));
      return true;
    case MemoryMessageKind::kReturnLeases:
      client.leases_wanted -= client.held.leases.size();
      return_leases(client.sandbox, client.held);
      return true;
    case MemoryMessageKind::kWantOffloaded:
      if (message.bytes == 0 || message.bytes % kLeaseGranularity != 0) return false;
      want_offloaded(client, Bytes(message.bytes));
      return true;
    case MemoryMessageKind::kReturnOffloaded: {
      // A predecessor of ours may have granted more.
      const Bytes returned = std::min(Bytes(message.bytes), client.held.offloaded);
      client.held.offloaded -= returned;
      lease_table.give_back(client.sandbox, returned);
      return true;
    }
    default:
      return false;
  }
}

void MemoryService::State::want_lease(uint64_t id, Client& client, Bytes bytes) {
  if (client.leases_wanted >= kMostLeasesPerClient || !lease_table.lease(client.sandbox, bytes)) {
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
  if (found == clients.end() || !made.ok()) lease_table.give_back(sandbox, bytes);
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
  client.held.leases.emplace_back(std::move(*made), bytes);
  if (!sent) hang_up(client_id);
}

// They are cut to nothing: a process that still has one mapped has no memory behind it any more,
// and no page goes to another tenant but through the kernel, zeroed.
void MemoryService::State::return_leases(uint64_t sandbox, Held& held) {
  for (const auto& [fd, bytes] : held.leases) {
    (void)!ftruncate(fd.get(), 0);
    lease_table.give_back(sandbox, bytes);
  }
  held.leases.clear();
  lease_table.give_back(sandbox, std::exchange(held.claimed, Bytes(0)));
}

void MemoryService::State::return_all(uint64_t sandbox, Held& held) {
  return_leases(sandbox, held);
  lease_table.give_back(sandbox, std::exchange(held.offloaded, Bytes(0)));
}

void MemoryService::State::want_offloaded(Client& client, Bytes bytes) {
  MemoryMessage answer;
  answer.bytes = bytes.count;
  answer.kind = MemoryMessageKind::kNoLease;
  if (lease_table.lease(client.sandbox, bytes)) {
    client.held.offloaded += bytes;
    answer.kind = MemoryMessageKind::kOffloadedGranted;
  }
  (void)send_packet(client.socket.get(), bytes_of(answer));
}

// What its process has stays until that has ended.
void MemoryService::State::hang_up(uint64_t id) {
  const auto found = clients.find(id);
  if (found == clients.end()) return;
  Client& client = found->second;
  if (client.held.is_something()) keep_for_process(client);
  drop_client(id);
}

// What is left with the client goes back.
void MemoryService::State::keep_for_process(Client& client) {
  OwnedFd process = open_process(client.process);
  if (!process.valid()) return;
  Orphan& orphan = orphans[client.process];
  if (!orphan.process.valid()) {
    orphan.sandbox = client.sandbox;
    orphan.process = std::move(process);
    orphan.watch = loop.watch(orphan.process.get(), true, false,
                              [this, id = client.process](loop::Readiness) { has_ended(id); });
  }
  if (orphan.sandbox != client.sandbox) return;
  for (auto& lease : client.held.leases) orphan.held.leases.push_back(std::move(lease));
  client.held.leases.clear();
  orphan.held.claimed += std::exchange(client.held.claimed, Bytes(0));
  orphan.held.offloaded += std::exchange(client.held.offloaded, Bytes(0));
}

void MemoryService::State::has_ended(pid_t process) {
  const auto found = orphans.find(process);
  if (found == orphans.end()) return;
  return_all(found->second.sandbox, found->second.held);
  found->second.watch.reset();
  orphans.erase(found);
}

// A process that connects again says what it has; one that has become another program has nothing.
void MemoryService::State::adopt(Client& client, const MemoryMessage& hello) {
  std::vector<uint64_t> ended;  // which may not have been seen yet
  for (const auto& [id, other] : clients) {
    if (&other == &client || other.process != client.process) continue;
    if (has_hung_up(other.socket)) ended.push_back(id);
  }
  for (const uint64_t id : ended) hang_up(id);
  adopt_from_orphan(client, hello);
  // The rest it has of a daemon before us.
  Held& held = client.held;
  held.claimed += lease_table.claim(client.sandbox, Bytes(hello.bytes) - held.leased());
  held.offloaded +=
      lease_table.claim(client.sandbox, Bytes(hello.offloaded_bytes) - held.offloaded);
}

void MemoryService::State::adopt_from_orphan(Client& client, const MemoryMessage& hello) {
  const auto found = orphans.find(client.process);
  if (found == orphans.end() || found->second.sandbox != client.sandbox) return;
  Held& held = found->second.held;
  if (hello.bytes > 0) {
    client.leases_wanted += held.leases.size();
    for (auto& lease : held.leases) client.held.leases.push_back(std::move(lease));
    held.leases.clear();
    client.held.claimed += std::exchange(held.claimed, Bytes(0));
  }
  const Bytes offloaded = std::min(held.offloaded, Bytes(hello.offloaded_bytes));
  held.offloaded -= offloaded;
  client.held.offloaded += offloaded;
  has_ended(client.process);
}

void MemoryService::State::drop_client(uint64_t id) {
  const auto found = clients.find(id);
  if (found == clients.end()) return;
  Client& client = found->second;
  return_all(client.sandbox, client.held);
  const auto sandbox = sandboxes.find(client.sandbox);
  if (sandbox != sandboxes.end()) {
    --sandbox->second.clients;
    for (uint32_t i = 0; i < sandbox->second.devices.size(); ++i) arbiter.remove(on_device(id, i));
  }
  client.watch.reset();
  clients.erase(found);
}

void MemoryService::State::give_turns() {
  for (const LinkArbiter::Grant& grant : arbiter.take_grants(loop.clock().now())) {
    MemoryMessage message;
    message.kind = MemoryMessageKind::kGrantLink;
    message.direction = static_cast<uint32_t>(grant.direction);
    message.bytes = grant.bytes.count;
    message.device = static_cast<uint32_t>(grant.client % kMostDevices);
    const auto found = clients.find(grant.client / kMostDevices);
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

}  // namespace lambent::monitor
