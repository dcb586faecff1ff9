#include "shim/memory_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "shim/log.h"

namespace lambent::shim {
namespace {

using protocol::MemoryMessage;

// The open sockets of this process, for a child to close. A process has two.
constexpr int kMostSockets = 4;
MemorySocket* open_sockets[kMostSockets];
bool is_fork_watched = false;

void enter(MemorySocket* socket) {
  for (MemorySocket*& place : open_sockets) {
    MemorySocket* nobody = nullptr;
    if (__atomic_compare_exchange_n(&place, &nobody, socket, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED)) {
      return;
    }
  }
}

void leave(MemorySocket* socket) {
  for (MemorySocket*& place : open_sockets) {
    MemorySocket* mine = socket;
    __atomic_compare_exchange_n(&place, &mine, nullptr, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  }
}

// The child's copies would keep the parent alive for the other side. The sockets themselves lie on
// the stack of the agent's thread, which the child has as memory alone.
void close_in_child() {
  for (MemorySocket*& place : open_sockets) {
    MemorySocket* socket = __atomic_exchange_n(&place, nullptr, __ATOMIC_ACQ_REL);
    if (socket != nullptr) socket->shut();
  }
}

// Out of the way of programs that count their descriptors.
constexpr int kFirstDescriptor = 900;

int connect_to(const char* path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (strlen(path) >= sizeof(address.sun_path)) return errno = ENAMETOOLONG, -1;
  strcpy(address.sun_path, path);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

int taken_out_of(const msghdr& header) {
  int taken = -1;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr;
       part = CMSG_NXTHDR(const_cast<msghdr*>(&header), part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      memcpy(&descriptor, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      if (taken >= 0) close(taken);
      taken = descriptor;
    }
  }
  return taken;
}

}  // namespace

bool MemorySocket::open(const char* path) {
  shut();
  fd_ = connect_to(path);
  if (fd_ < 0) {
    log_line("cannot connect to %s: %s", path, strerror(errno));
    return false;
  }
  const int high = fcntl(fd_, F_DUPFD_CLOEXEC, kFirstDescriptor);
  if (high >= 0) {
    close(fd_);
    fd_ = high;
  }
  take(fd_);
  return true;
}

bool MemorySocket::copy(const MemorySocket& other) {
  shut();
  const int copied = fcntl(other.fd_, F_DUPFD_CLOEXEC, kFirstDescriptor);
  if (copied < 0) return false;
  take(copied);
  return true;
}

void MemorySocket::take(int fd) {
  fd_ = fd;
  struct stat status = {};
  fstat(fd_, &status);
  device_ = status.st_dev;
  inode_ = status.st_ino;
  if (!__atomic_exchange_n(&is_fork_watched, true, __ATOMIC_ACQ_REL)) {
    pthread_atfork(nullptr, nullptr, close_in_child);
  }
  enter(this);
}

void MemorySocket::shut() {
  leave(this);
  if (fd_ >= 0 && is_still_ours()) close(fd_);
  fd_ = -1;
}

bool MemorySocket::is_still_ours() const {
  struct stat status = {};
  return fstat(fd_, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

bool MemorySocket::send(const MemoryMessage& message) {
  if (fd_ < 0) return false;
  ssize_t sent = -1;
  while (is_still_ours()) {
    sent = ::send(fd_, &message, sizeof(message), MSG_NOSIGNAL);
    if (sent >= 0 || errno != EINTR) break;
  }
  if (sent < 0) shut();
  return sent >= 0;
}

Received MemorySocket::receive(int64_t timeout_ns, MemoryMessage* message, int* descriptor) {
  *descriptor = -1;
  if (fd_ < 0) return Received::kClosed;
  const timespec timeout = {timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  pollfd waiting = {fd_, POLLIN, 0};
  const int ready = ppoll(&waiting, 1, timeout_ns < 0 ? nullptr : &timeout, nullptr);
  if (ready == 0 || (ready < 0 && errno == EINTR)) return Received::kNothingYet;
  iovec bytes = {message, sizeof(*message)};
  alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
  msghdr header = {};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  const ssize_t got = is_still_ours() ? recvmsg(fd_, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) : 0;
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Received::kNothingYet;
  if (got <= 0) {
    shut();
    return Received::kClosed;
  }
  *descriptor = taken_out_of(header);
  const bool is_whole = (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  if (is_whole && protocol::is_memory_message(message, static_cast<size_t>(got))) {
    return Received::kMessage;
  }
  log_line("a message of %zd bytes makes no sense", got);
  if (*descriptor >= 0) close(*descriptor);
  *descriptor = -1;
  return Received::kNothingYet;
}

}  // namespace lambent::shim
