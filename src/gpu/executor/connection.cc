#include "gpu/executor/connection.h"

#include <poll.h>

#include <optional>
#include <utility>

#include "core/base/packet.h"

namespace lambent::executor {
namespace {

constexpr int kFlushTimeout_ms = 1000;
constexpr size_t kShortErrorBytes = 512;

Error lost_fds() {
  return {ErrorCode::kResourceExhausted, "the executor cannot have as many files open"};
}

// What can be said in place of a message that cannot be sent; none if no answer is expected.
std::optional<protocol::ExecutorMessage> short_answer(std::string_view bytes, const Error& why) {
  auto message = protocol::decode_executor_message(bytes);
  if (!message.ok()) return std::nullopt;
  const auto cut = [](Error error) {
    if (error.message.size() > kShortErrorBytes) {
      size_t end = kShortErrorBytes;
      while (end > 0 && (error.message[end] & 0xc0) == 0x80) --end;  // no half of a character
      error.message = error.message.substr(0, end) + "...";
    }
    return error;
  };
  if (auto* finished = std::get_if<protocol::Finished>(&*message)) {
    protocol::Finished answer;
    answer.invocation = finished->invocation;
    answer.error = cut(finished->error.value_or(
        Error{ErrorCode::kResourceExhausted, "the answer cannot be sent: " + why.message}));
    return answer;
  }
  if (auto* failed = std::get_if<protocol::InstanceFailed>(&*message)) {
    return protocol::InstanceFailed{failed->instance, cut(std::move(failed->error))};
  }
  return std::nullopt;
}

}  // namespace

Connection::Connection(loop::EventLoop& loop, OwnedFd socket, OnMessage on_message,
                       std::function<void()> on_end)
    : socket_(std::move(socket)),
      on_message_(std::move(on_message)),
      on_end_(std::move(on_end)),
      buffer_(protocol::kExecutorMessage.count) {
  watch_ = loop.watch(socket_.get(), true, false, [this](loop::Readiness ready) {
    while (!waiting_.empty() && send_next()) {
    }
    if (waits_for_room_ && waiting_.empty() && !ended_) {
      waits_for_room_ = false;
      watch_.update(true, false);
    }
    if (ready.readable || ready.hung_up) read();
  });
}

// One message: if there are more, the loop says so again.
void Connection::read() {
  if (ended_) return;
  auto packet = receive_packet(socket_.get(), buffer_);
  if (!packet.ok()) return end();
  if (!*packet) return;
  if ((*packet)->truncated && !(*packet)->lost_fds) return end();
  auto message =
      protocol::decode_executor_message(std::string_view(buffer_.data(), (*packet)->size));
  if (!message.ok()) return end();
  if ((*packet)->lost_fds) return refuse(std::move(*message));
  on_message_(std::move(*message), std::move((*packet)->fds));
}

void Connection::refuse(protocol::ExecutorMessage message) {
  if (const auto* add = std::get_if<protocol::AddInstance>(&message)) {
    return send(protocol::InstanceFailed{add->instance, lost_fds()});
  }
  if (const auto* run = std::get_if<protocol::Run>(&message)) {
    protocol::Finished finished;
    finished.invocation = run->invocation;
    finished.error = lost_fds();
    return send(std::move(finished));
  }
  // It has no answer; its processes find no peer at their socket.
  if (std::holds_alternative<protocol::AddClient>(message)) return;
  auto* opened = std::get_if<protocol::ObjectOpened>(&message);
  if (opened == nullptr) return end();
  opened->error = lost_fds();
  on_message_(std::move(message), {});
}

void Connection::end() {
  if (std::exchange(ended_, true)) return;
  watch_.reset();
  on_end_();
}

bool Connection::send_next() {
  Waiting& next = waiting_.front();
  std::vector<int> fds;
  fds.reserve(next.fds.size());
  for (const OwnedFd& fd : next.fds) fds.push_back(fd.get());
  auto sent = Result<void>();
  if (next.bytes.size() > protocol::kExecutorMessage.count) {
    sent = Error{ErrorCode::kInvalidArgument,
                 "its message has " + to_string(Bytes(next.bytes.size())) + ", more than " +
                     to_string(protocol::kExecutorMessage)};
  } else {
    sent = send_packet(socket_.get(), next.bytes, fds);
    if (!sent.ok() && sent.error().code == ErrorCode::kResourceExhausted) return false;
  }
  // If the worker is gone, reading says so.
  if (sent.ok() || sent.error().code == ErrorCode::kUnavailable) {
    waiting_.pop_front();
    return true;
  }
  auto instead = next.is_short ? std::nullopt : short_answer(next.bytes, sent.error());
  if (instead) {
    next = {protocol::encode(std::move(*instead)), {}, true};
  } else {
    waiting_.pop_front();
    end();
  }
  return true;
}

void Connection::send(protocol::ExecutorMessage message, std::vector<OwnedFd> fds) {
  send(protocol::encode(std::move(message)), std::move(fds));
}

void Connection::send(std::string bytes, std::vector<OwnedFd> fds) {
  waiting_.push_back({std::move(bytes), std::move(fds)});
  if (waiting_.size() > 1) return;
  while (!waiting_.empty()) {
    if (send_next()) continue;
    if (!ended_) {
      waits_for_room_ = true;
      watch_.update(true, true);
    }
    return;
  }
}

void Connection::flush() {
  while (!waiting_.empty()) {
    if (send_next()) continue;
    pollfd writable = {socket_.get(), POLLOUT, 0};
    if (poll(&writable, 1, kFlushTimeout_ms) <= 0) return;
  }
}

}  // namespace lambent::executor
