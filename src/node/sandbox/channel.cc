#include "node/sandbox/channel.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/packet.h"
#include "node/sandbox/limits.h"
#include "node/sandbox/start_limits.h"

namespace lambent::sandbox {
namespace {

constexpr size_t kMostFds = limits::kSandboxSources + 4;
static_assert(kMostFds + 1 <= kMostPacketFds);

// The names of the files beside their contents, with their lengths, and all else.
constexpr size_t kLongest = 2 * limits::kSandboxSecretFiles.count;

// What is in it may be secret, and is in memory only.
Result<OwnedFd> keep_in_memory(std::string_view bytes) {
  OwnedFd file(memfd_create("lambent-message", MFD_CLOEXEC));
  if (!file.valid()) return error_from_errno("memfd_create", errno);
  RETURN_IF_ERROR(write_all(file.get(), bytes));
  return file;
}

Result<std::string> bytes_in(int file, uint64_t size) {
  if (size > kLongest) return Error{ErrorCode::kInvalidArgument, "launcher message: too long"};
  std::string bytes(size, '\0');
  for (size_t done = 0; done < size;) {
    const ssize_t got = pread(file, bytes.data() + done, size - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error_from_errno("read a launcher message", errno);
    if (got == 0) return Error{ErrorCode::kInvalidArgument, "launcher message: cut off"};
    done += static_cast<size_t>(got);
  }
  return bytes;
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
  const std::string bytes = encode(message);
  if (bytes.size() <= limits::kLauncherMessage.count) return send_packet(fd_.get(), bytes, fds);
  ASSIGN_OR_RETURN(const OwnedFd held, keep_in_memory(bytes));
  std::vector<int> all = {held.get()};
  all.insert(all.end(), fds.begin(), fds.end());
  return send_packet(fd_.get(), encode(LongMessage{bytes.size()}), all);
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
  if (const auto* instead = std::get_if<LongMessage>(&message)) {
    if (packet->fds.empty()) {
      return Error{ErrorCode::kInvalidArgument, "launcher message: its bytes did not come"};
    }
    ASSIGN_OR_RETURN(const std::string bytes, bytes_in(packet->fds[0].get(), instead->size));
    ASSIGN_OR_RETURN(message, decode(bytes));
    packet->fds.erase(packet->fds.begin());
  }
  return std::optional<Envelope>(Envelope{std::move(message), std::move(packet->fds)});
}

}  // namespace lambent::sandbox
