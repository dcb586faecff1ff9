#include "gpu/shim/testing/memory_peers.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>

namespace lambent::shim {
namespace {

using protocol::MemoryMessage;
using protocol::MemoryMessageKind;
using protocol::MemoryMoveStatus;

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  return address;
}

void send_message(int fd, const MemoryMessage& message) {
  (void)!send(fd, &message, sizeof(message), MSG_NOSIGNAL);
}

void send_descriptor(int fd, const MemoryMessage& message, int descriptor) {
  MemoryMessage copy = message;
  iovec bytes = {&copy, sizeof(copy)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  cmsghdr* part = CMSG_FIRSTHDR(&header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(part), &descriptor, sizeof(int));
  (void)!sendmsg(fd, &header, MSG_NOSIGNAL);
}

}  // namespace

MemoryListener::MemoryListener(const std::string& path)
    : path_(path), fd_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
  const sockaddr_un address = address_of(path);
  bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  listen(fd_.get(), 16);
}

std::vector<OwnedFd> MemoryListener::fill() const {
  const sockaddr_un address = address_of(path_);
  std::vector<OwnedFd> connections;
  while (true) {
    OwnedFd next(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (connect(next.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      return connections;
    }
    connections.push_back(std::move(next));
  }
}

OwnedFd MemoryListener::accept() {
  return OwnedFd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
}

std::optional<MemoryMessage> next_message(int fd) {
  MemoryMessage message;
  const ssize_t got = recv(fd, &message, sizeof(message), 0);
  if (got <= 0 || !protocol::is_memory_message(&message, static_cast<size_t>(got))) return {};
  return message;
}

WorkerSide::WorkerSide(MemoryListener& listener) : fd_(listener.accept()) {
  hello_.kind = MemoryMessageKind::kMoved;  // until it says so, it was none
  if (const auto message = next_message(fd_.get())) hello_ = *message;
  reader_ = std::thread([this] { read_all(); });
}

WorkerSide::~WorkerSide() {
  hang_up();
  reader_.join();
}

// The reader sees the end of the connection and goes; the descriptor stays its own until then.
void WorkerSide::hang_up() { shutdown(fd_.get(), SHUT_RDWR); }

void WorkerSide::read_all() {
  while (const auto message = next_message(fd_.get())) {
    const std::lock_guard lock(mutex_);
    if (message->kind != MemoryMessageKind::kWantMemory) {
      said_.push_back(*message);
    } else {
      wanted_bytes_ += message->bytes;
      ++wants_;
      if (grants_ == Grants::kLater) {
        open_wants_.push_back(message->bytes);
      } else {
        grant(grants_ == Grants::kAll ? message->bytes : 0);
      }
    }
    changed_.notify_all();
  }
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  changed_.notify_all();
}

std::optional<MemoryMessage> WorkerSide::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_over_ || !said_.empty(); });
  if (said_.empty()) return {};
  const MemoryMessage message = said_.front();
  said_.pop_front();
  return message;
}

uint64_t WorkerSide::wait_for_want() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_over_ || !open_wants_.empty(); });
  if (open_wants_.empty()) return 0;
  const uint64_t bytes = open_wants_.front();
  open_wants_.pop_front();
  return bytes;
}

void WorkerSide::grant(uint64_t bytes) {
  MemoryMessage message;
  message.kind = MemoryMessageKind::kGrantMemory;
  message.bytes = bytes;
  send_message(fd_.get(), message);
}

void WorkerSide::command(MemoryMessageKind kind, protocol::MemoryMoveDepth depth) {
  MemoryMessage message;
  message.kind = kind;
  message.depth = static_cast<uint32_t>(depth);
  message.sequence = ++sequence_;
  send_message(fd_.get(), message);
}

MemoryMessage WorkerSide::answer() {
  const auto message = next();
  if (message && message->kind == MemoryMessageKind::kMoved && message->sequence == sequence_) {
    return *message;
  }
  MemoryMessage none;
  none.status = static_cast<uint32_t>(MemoryMoveStatus::kFailed);
  return none;
}

MemoryMessage WorkerSide::move_out() {
  command(MemoryMessageKind::kMoveOut);
  return answer();
}

MemoryMessage WorkerSide::move_out_with_context() {
  command(MemoryMessageKind::kMoveOut, protocol::MemoryMoveDepth::kContext);
  return answer();
}

MemoryMessage WorkerSide::move_in() {
  command(MemoryMessageKind::kMoveIn);
  return answer();
}

DeviceSide::DeviceSide(const std::string& path, Options options)
    : options_(options), listener_(path) {
  int ends[2] = {-1, -1};
  (void)!pipe2(ends, O_CLOEXEC);  // a program that is started meanwhile does not hold it
  stop_read_ = OwnedFd(ends[0]);
  stop_write_ = OwnedFd(ends[1]);
  thread_ = std::thread([this] { serve(); });
}

DeviceSide::~DeviceSide() {
  stop_write_.reset();
  thread_.join();
}

void DeviceSide::serve() {
  while (true) {
    std::vector<pollfd> waiting = {{stop_read_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const OwnedFd& connection : connections_) waiting.push_back({connection.get(), POLLIN, 0});
    const int timeout_ms = wishes_.empty() ? -1 : 1;
    if (poll(waiting.data(), waiting.size(), timeout_ms) < 0 || waiting[0].revents != 0) return;
    for (size_t i = 2; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      if (const auto message = next_message(waiting[i].fd)) {
        take(waiting[i].fd, *message);
        continue;
      }
      std::erase_if(wishes_, [&](const Wish& wish) { return wish.fd == waiting[i].fd; });
      std::erase_if(connections_, [&](const OwnedFd& fd) { return fd.get() == waiting[i].fd; });
    }
    if (waiting[1].revents != 0) connections_.push_back(listener_.accept());
    connected_ = static_cast<int>(connections_.size());
    grant_next();
  }
}

void DeviceSide::take(int fd, const MemoryMessage& message) {
  switch (message.kind) {
    case MemoryMessageKind::kHello:
      claimed_bytes_ = message.bytes;
      return;
    case MemoryMessageKind::kWantLease:
      return give_lease(fd, message.bytes);
    case MemoryMessageKind::kReturnLeases:
      leased_bytes_ = 0;
      return;
    case MemoryMessageKind::kWantOffloaded: {
      MemoryMessage answer = message;
      const bool granted = options_.grants_offloaded_pieces &&
                           leased_bytes_ + offloaded_bytes_ + message.bytes <= options_.budget;
      answer.kind = granted ? MemoryMessageKind::kOffloadedGranted : MemoryMessageKind::kNoLease;
      if (granted) offloaded_bytes_ += message.bytes;
      return send_message(fd, answer);
    }
    case MemoryMessageKind::kReturnOffloaded:
      offloaded_bytes_ -= message.bytes;
      return;
    case MemoryMessageKind::kWantLink:
      ++wished_;
      if (options_.grants_turns) wishes_.push_back({fd, message});
      return grant_next();
    case MemoryMessageKind::kLinkDone:
      --turns_out_;
      bytes_[message.direction] += message.bytes;
      bytes_on_link_[message.device] += message.bytes;
      return grant_next();
    default:
      return;
  }
}

void DeviceSide::grant_next() {
  if (holds_turns_ || wishes_.empty() || turns_out_ > 0) return;
  MemoryMessage grant = wishes_.front().message;
  grant.kind = MemoryMessageKind::kGrantLink;
  ++turns_out_;
  ++turns_;
  send_message(wishes_.front().fd, grant);
  wishes_.pop_front();
}

void DeviceSide::give_lease(int fd, uint64_t bytes) {
  MemoryMessage answer;
  answer.kind = MemoryMessageKind::kNoLease;
  answer.bytes = std::min(bytes, options_.largest_lease);
  const OwnedFd memory(memfd_create("lease", MFD_CLOEXEC));
  const bool exceeds = leased_bytes_ + offloaded_bytes_ + answer.bytes > options_.budget;
  if (!options_.gives_leases || exceeds ||
      ftruncate(memory.get(), static_cast<off_t>(answer.bytes)) != 0) {
    return send_message(fd, answer);
  }
  answer.kind = MemoryMessageKind::kLease;
  leased_bytes_ += answer.bytes;
  ++leases_;
  send_descriptor(fd, answer, memory.get());
}

}  // namespace lambent::shim
