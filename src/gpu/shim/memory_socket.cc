#include "gpu/shim/memory_socket.h"

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

#include "gpu/shim/log.h"

namespace lambent::shim {
namespace {

using protocol::MemoryMessage;

// The open sockets of this process, for a child to close. A process has one to the worker, its copy
// to send on, one to lambent-device, and one for the turns on the link of each further device.
constexpr int kMostSockets = 3 + protocol::kMostDevicesOfSandbox;
MemorySocket* open_sockets[kMostSockets];
bool is_fork_watched = false;
// Forks, so that a socket which a child may have got before it was among the open ones is not used.
// To hold forks back with a mutex could make two handlers of forks wait for each other.
unsigned forks_begun = 0;
unsigned forks_over = 0;
constexpr int kMostTries = 16;

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

void fork_begins() { __atomic_fetch_add(&forks_begun, 1, __ATOMIC_SEQ_CST); }
void fork_is_over() { __atomic_fetch_add(&forks_over, 1, __ATOMIC_SEQ_CST); }

// The child's copies would keep the parent alive for the other side. What lies on the stack of the
// agent's thread the child has only as memory.
void close_in_child() {
  fork_is_over();
  for (MemorySocket*& place : open_sockets) {
    MemorySocket* socket = __atomic_exchange_n(&place, nullptr, __ATOMIC_ACQ_REL);
    if (socket != nullptr) socket->shut();
  }
}

// Out of the way of programs that count their descriptors.
constexpr int kFirstDescriptor = 900;

// Who listens may be stopped, and those who wait for it have taken all the places that there are.
constexpr timeval kConnectGracePeriod = {1, 0};

void set_grace_period(int fd, timeval grace_period) {
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &grace_period, sizeof(grace_period));
}

void watch_forks() {
  if (__atomic_exchange_n(&is_fork_watched, true, __ATOMIC_ACQ_REL)) return;
  pthread_atfork(fork_begins, fork_is_over, close_in_child);
}

int at_a_high_number(int fd) {
  const int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, kFirstDescriptor);
  if (high < 0) return fd;
  close(fd);
  return high;
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

int MemorySocket::open(const char* path) {
  shut();
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (strlen(path) >= sizeof(address.sun_path)) return ENAMETOOLONG;
  strcpy(address.sun_path, path);
  if (!make()) return errno;
  set_grace_period(fd_, kConnectGracePeriod);
  if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    const int error = errno;
    shut();
    return error;
  }
  set_grace_period(fd_, {});
  return 0;
}

bool MemorySocket::make() {
  watch_forks();
  for (int tries = 0; tries < kMostTries; ++tries) {
    shut();
    const unsigned over = __atomic_load_n(&forks_over, __ATOMIC_SEQ_CST);
    const int fd = at_a_high_number(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (fd < 0) return false;
    take(fd, fd);
    if (__atomic_load_n(&forks_begun, __ATOMIC_SEQ_CST) <= over) break;
  }
  return true;
}

// Its number is among the open ones before it stands for the connection.
bool MemorySocket::copy(const MemorySocket& other) {
  shut();
  const int place = at_a_high_number(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (place < 0) return false;
  take(place, other.fd_);
  if (dup3(other.fd_, place, O_CLOEXEC) == place) return true;
  close(place);
  shut();
  return false;
}

void MemorySocket::take(int fd, int like) {
  struct stat status = {};
  fstat(like, &status);
  device_ = status.st_dev;
  inode_ = status.st_ino;
  fd_ = fd;
  enter(this);
}

void MemorySocket::shut() {
  if (fd_ >= 0) {
    was_taken_away_ = !is_still_ours();
    if (!was_taken_away_) close(fd_);
  }
  leave(this);
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
  if (!is_open()) return shut(), Received::kClosed;
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
