#include "gpu/shim/device_link.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gpu/shim/log.h"

namespace lambent::shim {
namespace {

using protocol::LinkDirection;
using protocol::MemoryMessage;
using protocol::MemoryMessageKind;

// Longer than the turns of all others can take.
constexpr int64_t kLongestWaitNs = 1'000'000'000;
// The daemon touches every page of a lease before it gives it. Two of these fit into the time that
// a worker gives a move.
constexpr int64_t kLongestLeaseNs = 12'000'000'000;

int64_t now_ns() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

MemoryMessage message_of(MemoryMessageKind kind, LinkDirection direction, uint64_t bytes) {
  MemoryMessage message;
  message.kind = kind;
  message.direction = static_cast<uint32_t>(direction);
  message.bytes = bytes;
  return message;
}

}  // namespace

bool DeviceLink::connect() {
  if (path_ == nullptr || socket_.is_open()) return path_ != nullptr;
  unanswered_ = 0;
  if (const int error = socket_.open(path_); error != 0) {
    log_line("cannot connect to %s: %s", path_, strerror(error));
    return false;
  }
  if (is_turns_only_) return true;
  MemoryMessage hello;
  hello.mode = static_cast<uint32_t>(mode_);
  hello.process = static_cast<uint32_t>(getpid());
  hello.bytes = leased_bytes_;
  hello.offloaded_bytes = offloaded_bytes_;
  return socket_.send(hello);
}

void DeviceLink::begin(Device device) {
  device_ = device < 0 ? 0 : static_cast<uint32_t>(device);
  begin_again();
}

MemoryMessage DeviceLink::of_link(MemoryMessageKind kind, LinkDirection direction,
                                  uint64_t bytes) const {
  MemoryMessage message = message_of(kind, direction, bytes);
  message.device = device_;
  return message;
}

void DeviceLink::begin_again() {
  MemoryMessage message;
  int descriptor = -1;
  if (socket_.is_open()) {
    take(0, &message, &descriptor);
    if (descriptor >= 0) close(descriptor);
    descriptor = -1;
  }
  connect();
  // It may have found its voice again; to want more while a wish is open would break the protocol.
  while (unanswered_ > 0 && socket_.is_open()) {
    const uint64_t before = unanswered_;
    take(0, &message, &descriptor);
    if (descriptor >= 0) close(descriptor);
    if (unanswered_ == before) break;
  }
  is_silent_ = !socket_.is_open() || unanswered_ > 0;
}

void DeviceLink::tell_what_is_held() {
  if (leased_bytes_ + offloaded_bytes_ > 0) begin_again();
}

void DeviceLink::want(LinkDirection direction, uint64_t bytes) {
  waited_ns_ = 0;
  is_wanted_ = !is_silent_ && socket_.send(of_link(MemoryMessageKind::kWantLink, direction, bytes));
}

Turn DeviceLink::await_turn(int64_t timeout_ns) {
  if (!is_wanted_) return Turn::kFree;
  const int64_t since = now_ns();
  MemoryMessage message;
  int descriptor = -1;
  const Received received = take(timeout_ns, &message, &descriptor);
  if (descriptor >= 0) close(descriptor);
  waited_ns_ += now_ns() - since;
  if (received == Received::kMessage && message.kind == MemoryMessageKind::kGrantLink) {
    is_wanted_ = false;
    return Turn::kGranted;
  }
  if (received != Received::kClosed && waited_ns_ < kLongestWaitNs) return Turn::kNotYet;
  if (received != Received::kClosed) {
    log_line("lambent-device gives no turn on the link: going on without");
    ++unanswered_;
  }
  is_wanted_ = false;
  is_silent_ = true;
  return Turn::kFree;
}

void DeviceLink::done(LinkDirection direction, uint64_t bytes) {
  socket_.send(of_link(MemoryMessageKind::kLinkDone, direction, bytes));
}

Received DeviceLink::take(int64_t timeout_ns, MemoryMessage* message, int* descriptor) {
  const Received received = socket_.receive(timeout_ns, message, descriptor);
  const bool is_late = received == Received::kMessage && unanswered_ > 0 &&
                       message->kind == MemoryMessageKind::kGrantLink;
  if (!is_late) return received;
  --unanswered_;
  MemoryMessage done = *message;
  done.kind = MemoryMessageKind::kLinkDone;
  socket_.send(done);
  return Received::kNothingYet;
}

int DeviceLink::lease(uint64_t bytes, uint64_t* got) {
  *got = 0;
  if (!connect()) return -1;
  if (!socket_.send(message_of(MemoryMessageKind::kWantLease, LinkDirection::kToDevice, bytes))) {
    return -1;
  }
  int descriptor = -1;
  if (!await_lease(MemoryMessageKind::kLease, bytes, got, &descriptor)) return -1;
  leased_bytes_ += *got;
  return descriptor;
}

bool DeviceLink::want_offloaded(uint64_t bytes) {
  if (!is_configured()) return true;
  if (!connect()) return false;
  if (!socket_.send(
          message_of(MemoryMessageKind::kWantOffloaded, LinkDirection::kToDevice, bytes))) {
    return false;
  }
  int descriptor = -1;
  uint64_t got = 0;
  const bool granted = await_lease(MemoryMessageKind::kOffloadedGranted, bytes, &got, &descriptor);
  if (descriptor >= 0) close(descriptor);
  if (granted) offloaded_bytes_ += bytes;
  return granted;
}

// Where it cannot be told, it is when the next connection says what this process has.
void DeviceLink::return_leases() {
  leased_bytes_ = 0;
  if (!socket_.is_open()) return;
  socket_.send(message_of(MemoryMessageKind::kReturnLeases, LinkDirection::kToDevice, 0));
}

void DeviceLink::return_offloaded(uint64_t bytes) {
  offloaded_bytes_ -= bytes < offloaded_bytes_ ? bytes : offloaded_bytes_;
  if (!socket_.is_open()) return;
  socket_.send(message_of(MemoryMessageKind::kReturnOffloaded, LinkDirection::kToDevice, bytes));
}

// Until it is given what it asked for, refused, or has waited long enough. A lease comes with its
// descriptor.
bool DeviceLink::await_lease(MemoryMessageKind wanted, uint64_t bytes, uint64_t* got,
                             int* descriptor) {
  const bool needs_descriptor = wanted == MemoryMessageKind::kLease;
  const int64_t end = now_ns() + kLongestLeaseNs;
  for (int64_t left = kLongestLeaseNs; left > 0; left = end - now_ns()) {
    MemoryMessage answer;
    const Received received = take(left, &answer, descriptor);
    if (received == Received::kClosed) return false;
    if (received != Received::kMessage) continue;
    if (answer.kind == wanted && (*descriptor >= 0 || !needs_descriptor)) {
      *got = answer.bytes;
      return true;
    }
    if (*descriptor >= 0) close(*descriptor);
    *descriptor = -1;
    if (answer.kind == MemoryMessageKind::kNoLease) return false;
  }
  log_line("lambent-device does not answer about a lease of %lu bytes", bytes);
  return false;
}

}  // namespace lambent::shim
