#include "sandbox/channel.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace lambent::sandbox {
namespace {

constexpr size_t kMostFds = 2 * limits::kSandboxBinds + 2;

Error peer_gone() { return Error{ErrorCode::kUnavailable, "the other end of the channel is gone"}; }

std::vector<OwnedFd> take_fds(msghdr& header) {
  std::vector<OwnedFd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

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
  std::string bytes = encode(message);
  iovec piece{bytes.data(), bytes.size()};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kMostFds * sizeof(int))] = {};
  if (!fds.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    memcpy(CMSG_DATA(part), fds.data(), fds.size() * sizeof(int));
  }
  while (true) {
    if (sendmsg(fd_.get(), &header, MSG_NOSIGNAL) >= 0) return {};
    if (errno == EINTR) continue;
    if (errno == EPIPE || errno == ECONNRESET) return peer_gone();
    if (errno == EAGAIN) {
      return Error{ErrorCode::kResourceExhausted, "no room in the channel"};
    }
    return error_from_errno("sendmsg", errno);
  }
}

Result<std::optional<Envelope>> Channel::receive() {
  static thread_local std::string buffer(limits::kLauncherMessage.count, '\0');
  iovec piece{buffer.data(), buffer.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostFds * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t got = -1;
  do {
    got = recvmsg(fd_.get(), &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    if (errno == EAGAIN) return std::optional<Envelope>();
    if (errno == ECONNRESET) return peer_gone();
    return error_from_errno("recvmsg", errno);
  }
  std::vector<OwnedFd> fds = take_fds(header);
  if (got == 0) return peer_gone();
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return Error{ErrorCode::kInvalidArgument, "launcher message: too long"};
  }
  ASSIGN_OR_RETURN(Message message,
                   decode(std::string_view(buffer.data(), static_cast<size_t>(got))));
  return std::optional<Envelope>(Envelope{std::move(message), std::move(fds)});
}

}  // namespace lambent::sandbox
