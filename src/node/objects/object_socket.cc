#include "node/objects/object_socket.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "node/objects/limits.h"

namespace lambent::objects {
namespace {

// Requests of one client that are answered before others have their turn.
constexpr int kTurn = 32;
// Without free descriptors accepting would fail again at once.
constexpr Duration kAcceptPause = milliseconds(100);

}  // namespace

ObjectSocket::ObjectSocket(loop::EventLoop& loop, LogSink& log, ObjectStore& store, Random& random,
                           TenantId tenant, OwnedFd listener)
    : loop_(loop),
      log_(log),
      store_(store),
      random_(random),
      tenant_(tenant),
      listener_(std::move(listener)) {
  watch_ = loop_.watch(listener_.get(), true, false, [this](loop::Readiness) { accept(); });
}

ObjectSocket::~ObjectSocket() {
  loop_.cancel(accept_pause_);
  while (!connections_.empty()) close(connections_.begin()->first);
}

void ObjectSocket::accept() {
  OwnedFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.valid()) {
    const int error = errno;
    if (error == EAGAIN || error == ECONNABORTED || error == EINTR) return;
    log_.warning("object_socket", {{"error", to_string(error_from_errno("accept", error))}});
    return pause_accepting();
  }
  if (connections_.size() >= limits::kObjectConnections)
    return;  // refused: the client sees its end
  const ConnectionId id = next_++;
  Connection& connection = connections_[id];
  connection.fd = std::move(fd);
  connection.watch =
      loop_.watch(connection.fd.get(), true, false, [this, id](loop::Readiness) { receive(id); });
}

// The watch would tell of the same client at once.
void ObjectSocket::pause_accepting() {
  watch_.update(false, false);
  accept_pause_ = loop_.call_after(kAcceptPause, [this] { watch_.update(true, false); });
}

void ObjectSocket::receive(ConnectionId id) {
  std::array<char, protocol::kObjectMessage.count> buffer;
  for (int i = 0; i < kTurn; ++i) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    auto packet = receive_packet(found->second.fd.get(), buffer);
    if (!packet.ok()) return close(id);
    if (!packet->has_value()) return;
    if ((*packet)->truncated) return close(id);
    auto message = protocol::decode_object_message({buffer.data(), (*packet)->size});
    if (!message.ok()) return close(id);
    if (auto* put = std::get_if<protocol::PutObject>(&*message)) {
      answer(id, std::move(*put), std::move((*packet)->fds));
    } else if (const auto* get = std::get_if<protocol::GetObject>(&*message)) {
      answer(id, *get);
    } else {
      return close(id);
    }
  }
}

void ObjectSocket::answer(ConnectionId id, protocol::PutObject put, std::vector<OwnedFd> fds) {
  protocol::ObjectReply answered;
  answered.ticket = put.ticket;
  answered.object = put.object.value_or(ObjectId{new_invocation_id(random_), 0});
  answered.type = put.type;
  std::optional<Duration> time_to_live;
  if (put.time_to_live_ms != 0) {
    const auto most = static_cast<uint64_t>(limits::kMostObjectTimeToLive / milliseconds(1));
    time_to_live = milliseconds(std::min(put.time_to_live_ms, most + 1));
  }
  auto stored = fds.size() == 1
                    ? store_.store(tenant_, answered.object, std::move(put.type), std::move(fds[0]),
                                   time_to_live)
                    : Result<void>(Error{ErrorCode::kInvalidArgument,
                                         "a put comes with one descriptor, that of its memfd"});
  if (!stored.ok()) answered.error = stored.error();
  reply(id, answered, -1);
}

void ObjectSocket::answer(ConnectionId id, const protocol::GetObject& get) {
  Connection& connection = connections_.at(id);
  if (connection.waits.size() >= limits::kObjectGets) {
    protocol::ObjectReply refused{get.ticket, std::nullopt, get.object, {}};
    refused.error = {ErrorCode::kResourceExhausted, "this client waits for too many objects"};
    return reply(id, refused, -1);
  }
  const auto most = static_cast<uint64_t>(limits::kMostObjectWait / milliseconds(1));
  const Instant deadline = loop_.now() + milliseconds(std::min(get.wait_ms, most));
  const uint64_t number = next_++;
  connection.waits.emplace(number, 0);
  const WaitId wait = store_.open(
      tenant_, get.object, deadline, [this, id, number, get](Result<OpenedObject> opened) {
        connections_.at(id).waits.erase(number);
        protocol::ObjectReply answered{get.ticket, std::nullopt, get.object, {}};
        if (!opened.ok()) answered.error = opened.error();
        if (opened.ok()) answered.type = opened->type;
        reply(id, answered, opened.ok() ? opened->memfd.get() : -1);
      });
  if (wait == 0) return;
  connections_.at(id).waits.at(number) = wait;
}

void ObjectSocket::reply(ConnectionId id, const protocol::ObjectReply& reply, int memfd) {
  const std::span<const int> fds(&memfd, memfd >= 0 ? 1 : 0);
  const auto sent = send_packet(connections_.at(id).fd.get(), protocol::encode(reply), fds);
  if (!sent.ok()) close(id);
}

void ObjectSocket::close(ConnectionId id) {
  const auto found = connections_.find(id);
  for (const auto& [number, wait] : found->second.waits) store_.cancel(wait);
  found->second.watch.reset();
  connections_.erase(found);
}

}  // namespace lambent::objects
