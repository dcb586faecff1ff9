#include "node/worker/memory_channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/packet.h"
#include "core/base/process.h"
#include "core/domain/limits.h"
#include "core/protocol/memory_codec.h"
#include "node/worker/sandbox_socket.h"

namespace lambent::worker {
namespace {

using protocol::MemoryMessage;
using protocol::MemoryMessageKind;
using protocol::MemoryMoveDepth;
using protocol::MemoryMoveStatus;

constexpr size_t kMostPeers = limits::kSandboxProcesses;
// What one sandbox may have of a turn of the loop.
constexpr int kMessagesPerTurn = 16;
constexpr size_t kAcceptsPerTurn = 16;
// So long after a refusal no process of the sandbox is heard with another wish: memory that was
// missing is missing still. A shim asks again after ten times as long.
constexpr Duration kRefusalHolds = milliseconds(100);
// How long who hung up in the middle of a move out may take to end. A process that is killed is
// gone in less; one that only closed its connection goes on.
constexpr Duration kEndGracePeriod = milliseconds(2000);

}  // namespace

Result<std::unique_ptr<MemoryChannel>> MemoryChannel::open(loop::EventLoop& loop, LogSink& log,
                                                           const std::string& path,
                                                           std::function<void(MemoryMove)> on_moved,
                                                           std::function<void(Bytes)> on_wanted) {
  // The function runs as another user than the worker; no other user sees the file.
  ASSIGN_OR_RETURN(OwnedFd listener, listen_to_sandbox(path));
  return std::unique_ptr<MemoryChannel>(
      new MemoryChannel(loop, log, std::move(listener), std::move(on_moved), std::move(on_wanted)));
}

MemoryChannel::MemoryChannel(loop::EventLoop& loop, LogSink& log, OwnedFd listener,
                             std::function<void(MemoryMove)> on_moved,
                             std::function<void(Bytes)> on_wanted)
    : loop_(loop),
      log_(log),
      listener_(std::move(listener)),
      on_moved_(std::move(on_moved)),
      on_wanted_(std::move(on_wanted)) {
  listener_watch_ = loop_.watch(listener_.get(), true, false,
                                [this](loop::Readiness) { accept_peers(kAcceptsPerTurn); });
}

MemoryChannel::MemoryChannel(loop::EventLoop& loop, LogSink& log, HandedOverMemory from,
                             std::function<void(MemoryMove)> on_moved,
                             std::function<void(Bytes)> on_wanted)
    : MemoryChannel(loop, log, std::move(from.listener), std::move(on_moved),
                    std::move(on_wanted)) {
  for (OwnedFd& socket : from.processes) {
    const uint64_t id = ++last_peer_;
    Peer& peer = peers_[id];
    peer.socket = std::move(socket);
    peer.greeted = true;
    watch_peer(id);
  }
  place_ = from.place;
  sequence_ = from.sequence + 1;
  belongs_out_ = place_.is_out;
  if (place_.deep) depth_ = MemoryMoveDepth::kContext;
  // Also what was spared before the memory came in again: a process that comes later may need it.
  if (peers_.size() == 1) spared_ = place_.offloaded;
  for (uint64_t id = 1; id <= last_peer_; ++id) {
    send(id, belongs_out_ ? MemoryMessageKind::kMoveOut : MemoryMessageKind::kMoveIn);
  }
}

MemoryChannel::~MemoryChannel() {
  for (const auto& [id, ending] : ending_) loop_.cancel(ending.grace_period);
  loop_.cancel(report_timer_);
  loop_.cancel(want_timer_);
}

void MemoryChannel::accept_peers(size_t most) {
  for (size_t count = 0; count < most; ++count) {
    OwnedFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    if (peers_.size() >= kMostPeers) continue;  // and so hung up on
    const uint64_t id = ++last_peer_;
    Peer& peer = peers_[id];
    peer.socket = std::move(socket);
    watch_peer(id);
  }
}

void MemoryChannel::watch_peer(uint64_t id) {
  Peer& peer = peers_.at(id);
  peer.watch =
      loop_.watch(peer.socket.get(), true, false, [this, id](loop::Readiness) { read_peer(id); });
}

void MemoryChannel::read_peer(uint64_t id) {
  for (int count = 0; count < kMessagesPerTurn; ++count) {
    const auto found = peers_.find(id);
    if (found == peers_.end()) return;
    char buffer[sizeof(MemoryMessage)];
    const auto packet = receive_packet(found->second.socket.get(), buffer);
    if (packet.ok() && !packet->has_value()) return;
    std::optional<MemoryMessage> message;
    // No message has descriptors: who sends some wants them to be closed here.
    if (packet.ok() && !(*packet)->truncated && (*packet)->fds.empty()) {
      message = protocol::memory_message_from(std::span(buffer, (*packet)->size));
    }
    if (!message || !take(id, found->second, *message)) {
      drop(id);
      return;
    }
  }
}

// False: it does not keep to the protocol.
bool MemoryChannel::take(uint64_t id, Peer& peer, const MemoryMessage& message) {
  if (message.kind == MemoryMessageKind::kHello) {
    if (std::exchange(peer.greeted, true)) return false;
    greet(id);
    return true;
  }
  if (message.kind == MemoryMessageKind::kWantMemory) {
    return peer.greeted && take_want(id, peer, Bytes(message.bytes));
  }
  if (message.kind != MemoryMessageKind::kMoved || !peer.greeted) return false;
  // An answer to a command that was overtaken, or to what a latecomer was told: no caller waits.
  if (message.sequence != sequence_ || awaited_.erase(id) == 0) return true;
  const auto status = static_cast<MemoryMoveStatus>(message.status);
  if (status != MemoryMoveStatus::kDone) {
    move_.done = false;
    if (takes_back_ || status == MemoryMoveStatus::kFailed) move_.broken = true;
    log_.warning("memory_not_moved", {{"process", static_cast<int64_t>(message.process)},
                                      {"out", belongs_out_},
                                      {"status", static_cast<int64_t>(message.status)}});
  }
  if (!takes_back_) {
    move_.moved += Bytes(message.bytes);
    move_.left += Bytes(message.left_bytes);
    move_.offloaded += Bytes(message.offloaded_bytes);
  }
  finish_if_all_answered();
  return true;
}

void MemoryChannel::greet(uint64_t id) {
  if (moving_) awaited_.insert(id);
  await_end_no_more(process_behind(peers_.at(id).socket));
  send(id, belongs_out_ ? MemoryMessageKind::kMoveOut : MemoryMessageKind::kMoveIn);
  // What the others do not have on the device, this one may allocate.
  if (const Bytes spared = std::exchange(spared_, Bytes(0)); spared > Bytes(0)) want({0, spared});
}

bool MemoryChannel::take_want(uint64_t id, Peer& peer, Bytes bytes) {
  if (peer.wants) return false;
  if (loop_.clock().now() < refused_until_) {
    send(id, MemoryMessageKind::kGrantMemory);
    return true;
  }
  peer.wants = true;
  want({id, bytes});
  return true;
}

void MemoryChannel::want(const Want& want) {
  if (refuses_wishes_) return answer(want, Bytes(0));
  wants_.push_back(want);
  if (wants_.size() == 1) announce_want();
}

void MemoryChannel::announce_want() {
  want_timer_ = loop_.call_after(Duration(0), [this] {
    if (wants_.empty()) return;
    const Bytes bytes = wants_.front().bytes;
    on_wanted_ ? on_wanted_(bytes) : grant(bytes);
  });
}

void MemoryChannel::grant(Bytes bytes) {
  if (wants_.empty()) return;
  const Want answered = wants_.front();
  wants_.pop_front();
  place_.offloaded -= bytes;
  if (answered.peer != 0 && bytes == Bytes(0)) {
    refused_until_ = loop_.clock().now() + kRefusalHolds;
  }
  answer(answered, bytes);
  if (!wants_.empty()) announce_want();
}

void MemoryChannel::answer(const Want& want, Bytes bytes) {
  const auto found = peers_.find(want.peer);
  if (found == peers_.end()) return;
  found->second.wants = false;
  send(want.peer, MemoryMessageKind::kGrantMemory, bytes);
}

void MemoryChannel::refuse_wishes() {
  refuses_wishes_ = true;
  for (const Want& each : std::exchange(wants_, {})) answer(each, Bytes(0));
}

void MemoryChannel::move_out(MemoryMoveDepth depth) { begin(MemoryMessageKind::kMoveOut, depth); }
void MemoryChannel::move_in() { begin(MemoryMessageKind::kMoveIn, MemoryMoveDepth::kMemory); }

// Who has memory has greeted, but perhaps in this very turn of the loop.
void MemoryChannel::hear_newcomers() {
  accept_peers(kMostPeers);
  std::vector<uint64_t> newcomers;
  for (const auto& [id, peer] : peers_) {
    if (!peer.greeted) newcomers.push_back(id);
  }
  for (const uint64_t id : newcomers) read_peer(id);
}

void MemoryChannel::begin(MemoryMessageKind kind, MemoryMoveDepth depth) {
  hear_newcomers();
  move_ = {.out = kind == MemoryMessageKind::kMoveOut, .deep = depth == MemoryMoveDepth::kContext};
  takes_back_ = false;
  began_ = loop_.clock().now();
  tell_all(kind, depth);
}

void MemoryChannel::tell_all(MemoryMessageKind kind, MemoryMoveDepth depth) {
  ++sequence_;
  belongs_out_ = kind == MemoryMessageKind::kMoveOut;
  depth_ = depth;
  moving_ = true;
  awaited_.clear();
  for (const auto& [id, ending] : ending_) loop_.cancel(ending.grace_period);
  ending_.clear();
  for (const auto& [id, peer] : peers_) {
    if (peer.greeted) awaited_.insert(id);
  }
  const std::set<uint64_t> told = awaited_;
  for (const uint64_t id : told) send(id, kind);
  finish_if_all_answered();
}

void MemoryChannel::send(uint64_t id, MemoryMessageKind kind, Bytes bytes) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  MemoryMessage message;
  message.kind = kind;
  message.sequence = sequence_;
  message.depth = static_cast<uint32_t>(depth_);
  message.bytes = bytes.count;
  // One that is gone is found so when its socket is read; one that does not read its messages is
  // taken for one that does not answer.
  (void)send_packet(found->second.socket.get(), protocol::bytes_of(message));
}

void MemoryChannel::drop(uint64_t id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  found->second.watch.reset();
  const OwnedFd socket = std::move(found->second.socket);
  peers_.erase(found);
  // What was announced is still to be answered.
  if (!wants_.empty()) {
    wants_.erase(std::remove_if(wants_.begin() + 1, wants_.end(),
                                [id](const Want& want) { return want.peer == id; }),
                 wants_.end());
  }
  if (!awaited_.contains(id)) return;
  if (moving_ && move_.out && !takes_back_ && await_end(id, socket)) return;
  awaited_.erase(id);
  finish_if_all_answered();
}

// It is being killed, most likely: its memory is on the device until the last of it is gone, and
// a function that was promised the memory would find the device full. False: it is gone.
bool MemoryChannel::await_end(uint64_t id, const OwnedFd& socket) {
  const pid_t who = process_behind(socket);
  OwnedFd process = open_process(who);
  if (!process.valid()) return false;
  Ending& ending = ending_[id];
  ending.id = who;
  ending.process = std::move(process);
  ending.watch = loop_.watch(ending.process.get(), true, false,
                             [this, id](loop::Readiness) { has_ended(id); });
  ending.grace_period = loop_.call_after(kEndGracePeriod, [this, id] { has_ended(id); });
  return true;
}

// It had lost its connection, and has come again.
void MemoryChannel::await_end_no_more(pid_t process) {
  const auto is_it = [process](const auto& ending) { return ending.second.id == process; };
  const auto found = std::find_if(ending_.begin(), ending_.end(), is_it);
  if (found != ending_.end()) has_ended(found->first);
}

void MemoryChannel::has_ended(uint64_t id) {
  const auto found = ending_.find(id);
  if (found == ending_.end()) return;
  loop_.cancel(found->second.grace_period);
  ending_.erase(found);
  if (awaited_.erase(id) > 0) finish_if_all_answered();
}

void MemoryChannel::finish_if_all_answered() {
  if (!moving_ || !awaited_.empty()) return;
  moving_ = false;
  if (!move_.done && !move_.deep && !takes_back_ && !move_.broken) {
    // Some may have moved: all are told to be where they were. What could not go deeper stays as
    // far out as it was.
    takes_back_ = true;
    tell_all(move_.out ? MemoryMessageKind::kMoveIn : MemoryMessageKind::kMoveOut,
             MemoryMoveDepth::kMemory);
    return;
  }
  move_.duration = loop_.clock().now() - began_;
  if (move_.out && move_.done) {
    spared_ = peers_.size() == 1 ? move_.offloaded : Bytes(0);
    move_.spared = spared_;
  }
  note_place();
  // In the next turn: the caller may be in the middle of handling an event.
  loop_.cancel(report_timer_);
  reports_ = true;
  report_timer_ = loop_.call_after(Duration(0), [this, move = move_] {
    reports_ = false;
    on_moved_(move);
  });
}

// As dispatch understands the report.
void MemoryChannel::note_place() {
  if (!move_.out) {
    if (move_.done) place_.is_out = place_.deep = false;
  } else if (move_.deep) {
    place_.deep = move_.done;
  } else if (move_.done) {
    place_ = {true, false, move_.left, move_.spared};
  }
}

bool MemoryChannel::rests() {
  hear_newcomers();
  const bool all_greeted = std::all_of(peers_.begin(), peers_.end(),
                                       [](const auto& each) { return each.second.greeted; });
  return all_greeted && !moving_ && !reports_ && wants_.empty();
}

HandedOverMemory MemoryChannel::hand_over() {
  HandedOverMemory all;
  listener_watch_.reset();
  all.listener = std::move(listener_);
  for (auto& [id, peer] : peers_) {
    peer.watch.reset();
    all.processes.push_back(std::move(peer.socket));
  }
  peers_.clear();
  all.sequence = sequence_;
  all.place = place_;
  return all;
}

}  // namespace lambent::worker
