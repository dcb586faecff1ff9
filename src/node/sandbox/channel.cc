#include "node/sandbox/channel.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>

#include "core/base/packet.h"
#include "node/sandbox/limits.h"

namespace lambent::sandbox {
namespace {

constexpr size_t kMostFds = 2 * limits::kSandboxBinds + 4;
static_assert(kMostFds <= kMostPacketFds);

}  // namespace

Result<std::pair<Channel, Channel>> Channel::make_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return error_from_errno("socketpair", errno);
  }
  // Best effort: the kernel caps the size; the default holds one plan, this several.
  const int size = static_cast<int>(4 * limits::kLauncherMessage.count);
  for (const int end : ends) setsockopt(end, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
  return std::pair(Channel(OwnedFd(ends[0])), Channel(OwnedFd(ends[1])));
}

void Channel::set_blocking(bool blocking) {
  const int flags = fcntl(fd_.get(), F_GETFL);
  fcntl(fd_.get(), F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

Result<void> Channel::send(const Message& message, const std::vector<int>& fds) {
  CHECK(fds.size() <= kMostFds, "too many descriptors in one message");
  return send_packet(fd_.get(), encode(message), fds);
}

Result<std::optional<Envelope>> Channel::receive() {
  static thread_local std::string buffer(limits::kLauncherMessage.count, '\0');
  ASSIGN_OR_RETURN(std::optional<Packet> packet, receive_packet(fd_.get(), buffer));
  if (!packet) return std::optional<Envelope>();
  if (packet->truncated && !packet->lost_fds) {
    return Error{ErrorCode::kInvalidArgument, "launcher message: too long"};
  }
  // Some may have come; who expects them all could take one for another.
  if (packet->lost_fds) packet->fds.clear();
  ASSIGN_OR_RETURN(Message message, decode(std::string_view(buffer.data(), packet->size)));
  return std::optional<Envelope>(Envelope{std::move(message), std::move(packet->fds)});
}

}  // namespace lambent::sandbox
