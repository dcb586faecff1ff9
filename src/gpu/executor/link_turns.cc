#include "gpu/executor/link_turns.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "core/base/packet.h"
#include "core/protocol/memory_codec.h"

namespace lambent::executor {

using protocol::MemoryMessage;
using protocol::MemoryMessageKind;

LinkTurns::LinkTurns(std::string path, protocol::LinkDirection direction, const Clock& clock)
    : path_(std::move(path)), direction_(direction), clock_(clock) {}

std::optional<LinkTurns::TurnId> LinkTurns::take(Bytes bytes, Bytes behind) {
  if (path_.empty() || is_silent_ || !connect()) return kFree;
  receive();
  for (Turn& turn : turns_) {
    if (turn.is_over) continue;
    if (turn.left < bytes) {
      turn.is_over = true;
      continue;
    }
    turn.left -= bytes;
    turn.on_its_way += bytes;
    // The next one, so that it is there when this one ends.
    const TurnId id = turn.id;
    const bool is_last = &turn == &turns_.back();
    if (is_last && !wanted_since_ && behind > turn.left) want(behind - turn.left);
    end_turns();
    return id;
  }
  end_turns();
  if (!wanted_since_ && socket_.valid()) want(bytes + behind);
  return socket_.valid() ? std::optional<TurnId>() : kFree;
}

void LinkTurns::await(Duration most) {
  if (!socket_.valid()) return;
  if (wanted_since_ && clock_.now() - *wanted_since_ >= kLongestTurnWait) {
    std::fprintf(stderr, "lambent-device gives no turn on the link: going on without\n");
    wanted_since_.reset();
    ++unanswered_;
    is_silent_ = true;
    return;
  }
  pollfd waiting = {socket_.get(), POLLIN, 0};
  poll(&waiting, 1, static_cast<int>(std::chrono::ceil<milliseconds>(most).count()));
}

void LinkTurns::arrived(TurnId id, Bytes bytes) {
  for (Turn& turn : turns_) {
    if (turn.id == id) turn.on_its_way -= bytes;
  }
  end_turns();
}

void LinkTurns::rest() {
  for (Turn& turn : turns_) turn.is_over = true;
  end_turns();
  is_silent_ = false;
}

bool LinkTurns::connect() {
  if (socket_.valid()) return true;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.size() >= sizeof(address.sun_path)) return false;
  memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
  socket_ = OwnedFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool connected =
      socket_.valid() &&
      ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  MemoryMessage hello;
  hello.mode = static_cast<uint32_t>(protocol::MemoryMode::kVmm);
  hello.process = static_cast<uint32_t>(getpid());
  if (connected && send_packet(socket_.get(), protocol::bytes_of(hello)).ok()) return true;
  disconnect();
  return false;
}

// Until the next rest the link is not shared out: what is on its way goes on.
void LinkTurns::disconnect() {
  socket_.reset();
  turns_.clear();
  wanted_since_.reset();
  unanswered_ = 0;
  is_silent_ = true;
}

void LinkTurns::receive() {
  char buffer[sizeof(MemoryMessage)];
  while (socket_.valid()) {
    const auto packet = receive_packet(socket_.get(), buffer);
    if (!packet.ok()) return disconnect();
    if (!*packet) return;
    const auto message = protocol::memory_message_from(std::span(buffer, (*packet)->size));
    if (!message || message->kind != MemoryMessageKind::kGrantLink) continue;
    const Bytes granted(message->bytes);
    if (unanswered_ > 0) {
      --unanswered_;
      hand_back(granted);
    } else if (std::exchange(wanted_since_, std::nullopt)) {
      turns_.push_back({.id = ++last_turn_, .granted = granted, .left = granted});
    }
  }
}

void LinkTurns::want(Bytes bytes) {
  MemoryMessage wish;
  wish.kind = MemoryMessageKind::kWantLink;
  wish.direction = static_cast<uint32_t>(direction_);
  wish.bytes = std::min(bytes, kLinkQuantum).count;
  if (!send_packet(socket_.get(), protocol::bytes_of(wish)).ok()) return disconnect();
  wanted_since_ = clock_.now();
}

void LinkTurns::hand_back(Bytes bytes) {
  MemoryMessage done;
  done.kind = MemoryMessageKind::kLinkDone;
  done.direction = static_cast<uint32_t>(direction_);
  done.bytes = bytes.count;
  if (!send_packet(socket_.get(), protocol::bytes_of(done)).ok()) disconnect();
}

// In their order: lambent-device takes a word for that of the oldest.
void LinkTurns::end_turns() {
  while (!turns_.empty() && turns_.front().is_over && turns_.front().on_its_way == Bytes(0)) {
    const Bytes granted = turns_.front().granted;
    turns_.pop_front();
    hand_back(granted);
  }
}

}  // namespace lambent::executor
