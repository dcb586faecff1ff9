#include "executor/connection.h"

#include <poll.h>

#include <utility>

#include "base/packet.h"

namespace lambent::executor {
namespace {

constexpr int kFlushTimeout_ms = 1000;

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
    if (waiting_.empty() && !ended_) watch_.update(true, false);
    if (ready.readable || ready.hung_up) read();
  });
}

// One message: if there are more, the loop says so again.
void Connection::read() {
  if (ended_) return;
  auto packet = receive_packet(socket_.get(), buffer_);
  if (!packet.ok()) return end();
  if (!*packet) return;
  if ((*packet)->truncated) return end();
  auto message =
      protocol::decode_executor_message(std::string_view(buffer_.data(), (*packet)->size));
  if (!message.ok()) return end();
  on_message_(std::move(*message), std::move((*packet)->fds));
}

void Connection::end() {
  if (std::exchange(ended_, true)) return;
  watch_.reset();
  on_end_();
}

bool Connection::send_next() {
  const Waiting& next = waiting_.front();
  std::vector<int> fds;
  fds.reserve(next.fds.size());
  for (const OwnedFd& fd : next.fds) fds.push_back(fd.get());
  const auto sent = send_packet(socket_.get(), next.bytes, fds);
  if (!sent.ok() && sent.error().code == ErrorCode::kResourceExhausted) return false;
  waiting_.pop_front();  // if the worker is gone, reading says so
  return true;
}

void Connection::send(protocol::ExecutorMessage message, std::vector<OwnedFd> fds) {
  waiting_.push_back({protocol::encode(std::move(message)), std::move(fds)});
  if (waiting_.size() > 1) return;
  if (!send_next() && !ended_) watch_.update(true, true);
}

void Connection::flush() {
  while (!waiting_.empty()) {
    if (send_next()) continue;
    pollfd writable = {socket_.get(), POLLOUT, 0};
    if (poll(&writable, 1, kFlushTimeout_ms) <= 0) return;
  }
}

}  // namespace lambent::executor
