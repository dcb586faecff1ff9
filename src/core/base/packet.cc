#include "core/base/packet.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/check.h"

namespace lambent {
namespace {

Error peer_gone() { return {ErrorCode::kUnavailable, "the other end of the socket is gone"}; }

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

Result<void> send_packet(int socket, std::string_view bytes, std::span<const int> fds) {
  CHECK(fds.size() <= kMostPacketFds, "too many descriptors in one message");
  iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kMostPacketFds * sizeof(int))] = {};
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
    if (sendmsg(socket, &header, MSG_NOSIGNAL) >= 0) return {};
    if (errno == EINTR) continue;
    if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) return peer_gone();
    if (errno == EAGAIN) return Error{ErrorCode::kResourceExhausted, "no room in the socket"};
    return error_from_errno("sendmsg", errno);
  }
}

Result<std::optional<Packet>> receive_packet(int socket, std::span<char> buffer) {
  iovec piece{buffer.data(), buffer.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostPacketFds * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t got = -1;
  do {
    got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    if (errno == EAGAIN) return std::optional<Packet>();
    if (errno == ECONNRESET) return peer_gone();
    return error_from_errno("recvmsg", errno);
  }
  Packet packet;
  packet.fds = take_fds(header);
  if (got == 0) return peer_gone();
  packet.size = static_cast<size_t>(got);
  packet.truncated = (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  packet.lost_fds = (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == MSG_CTRUNC;
  return std::optional<Packet>(std::move(packet));
}

Result<OwnedFd> listen_packets(const std::string& path, unsigned mode) {
  const std::filesystem::path whole(path);
  std::string folder = whole.parent_path();
  if (folder.empty()) folder = ".";
  // An address holds 107 bytes; the folder's descriptor stands for a longer one.
  const OwnedFd parent(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!parent.valid()) return error_from_errno("open " + folder, errno);
  const std::string name = whole.filename();
  const std::string near = "/proc/self/fd/" + std::to_string(parent.get()) + "/" + name;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (near.size() >= sizeof(address.sun_path)) {
    return Error{ErrorCode::kInvalidArgument, name + " is too long for the name of a socket"};
  }
  memcpy(address.sun_path, near.c_str(), near.size() + 1);
  OwnedFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return error_from_errno("socket", errno);
  if (unlink(path.c_str()) != 0 && errno != ENOENT)
    return error_from_errno("unlink " + path, errno);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return error_from_errno("bind " + path, errno);
  }
  if (chmod(path.c_str(), mode) != 0) return error_from_errno("chmod " + path, errno);
  if (listen(fd.get(), SOMAXCONN) != 0) return error_from_errno("listen at " + path, errno);
  return fd;
}

}  // namespace lambent
