#include "node/http_relay/upstream.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "core/http/acknowledge.h"

namespace lambent::http_relay {
namespace {

constexpr size_t kBuffersPerWrite = 16;

}  // namespace

Upstream::Upstream(loop::EventLoop& loop, OwnedFd socket)
    : loop_(loop), socket_(std::move(socket)) {}

Upstream::~Upstream() { loop_.cancel(soon_); }

void Upstream::connect(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  begin_connecting(reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

void Upstream::connect(const sockaddr* address, socklen_t length, http::SecureConnector encrypt,
                       std::string host) {
  encrypt_ = std::move(encrypt);
  host_ = std::move(host);
  begin_connecting(address, length);
}

void Upstream::begin_connecting(const sockaddr* address, socklen_t length) {
  const int on = 1;
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const int result = ::connect(socket_.get(), address, length);
  if (result == 0 || errno != EINPROGRESS) {
    soon_ = loop_.call_after(Duration::zero(), [this, connected = result == 0] {
      if (connected) return check_connected();
      tell_connected(false);
    });
    return;
  }
  watch_ = loop_.watch(socket_.get(), false, true, [this](loop::Readiness) { check_connected(); });
}

// It may be over meanwhile, with its events taken away and its end yet to come.
void Upstream::tell_connected(bool connected) {
  const std::function<void(bool)> tell = events_.on_connected;
  if (tell) tell(connected);
}

void Upstream::check_connected() {
  int error = 0;
  socklen_t length = sizeof error;
  const bool known = getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length) == 0;
  watch_.reset();
  if (!known || error != 0) return tell_connected(false);
  if (encrypt_) {
    auto stream = encrypt_(std::move(socket_), host_);
    if (!stream.ok()) return tell_connected(false);
    stream_ = *std::move(stream);
    watch_ = loop_.watch(stream_->fd(), false, true, [this](loop::Readiness) { agree(); });
    return;
  }
  stream_ = http::plain_stream(std::move(socket_));
  watch_ =
      loop_.watch(stream_->fd(), false, false, [this](loop::Readiness ready) { on_ready(ready); });
  tell_connected(true);
}

// Reading makes both sides agree; nothing comes before the request is sent.
void Upstream::agree() {
  char early = 0;
  const http::Transfer looked = stream_->read({&early, 1});
  const bool waits = looked.kind == http::Transfer::Kind::kWaitsToRead ||
                     looked.kind == http::Transfer::Kind::kWaitsToWrite;
  if (waits && stream_->is_ready()) {
    watch_.reset();  // the kernel has one for each descriptor
    watch_ = loop_.watch(stream_->fd(), false, false,
                         [this](loop::Readiness ready) { on_ready(ready); });
    return tell_connected(true);
  }
  if (waits) {
    return watch_.update(looked.kind == http::Transfer::Kind::kWaitsToRead,
                         looked.kind == http::Transfer::Kind::kWaitsToWrite);
  }
  watch_.reset();
  tell_connected(false);
}

OwnedFd Upstream::take_socket() {
  watch_.reset();
  return std::move(socket_);
}

void Upstream::on_ready(loop::Readiness ready) {
  if (ready.writable && writes_) {
    flush();
    if (outbox_.empty() && events_.on_room) {
      // It may destroy this; then nothing more is to be done here, and reading comes in the next
      // turn.
      const std::function<void()> tell = events_.on_room;
      return tell();
    }
  }
  if (ready.hung_up && !reads_) {
    // It would be told again and again.
    watch_.reset();
    hung_up_ = true;
    return;
  }
  if (ready.readable || ready.hung_up) {
    const std::function<void()> tell = events_.on_readable;
    if (tell) tell();
  }
}

void Upstream::write(std::string bytes) {
  if (broken_ || bytes.empty()) return;
  size_t sent = 0;
  if (outbox_.empty()) {
    const iovec part{bytes.data(), bytes.size()};
    const http::Transfer written = stream_->write({&part, 1});
    // The program may have answered before: that is read still.
    if (written.kind == http::Transfer::Kind::kFailed) broken_ = true;
    if (broken_) return;
    sent = written.bytes;
    if (sent == bytes.size()) return;
    offset_ = sent;
  }
  unsent_ += bytes.size() - sent;
  outbox_.push_back(std::move(bytes));
  watch_for(reads_, true);
}

void Upstream::flush() {
  while (!outbox_.empty()) {
    iovec parts[kBuffersPerWrite];
    size_t count = 0;
    size_t offset = offset_;
    for (auto it = outbox_.begin(); it != outbox_.end() && count < kBuffersPerWrite; ++it) {
      parts[count++] = {it->data() + offset, it->size() - offset};
      offset = 0;
    }
    const http::Transfer written = stream_->write({parts, count});
    if (written.kind == http::Transfer::Kind::kFailed) {
      broken_ = true;
      outbox_.clear();
      unsent_ = 0;
      break;
    }
    if (written.kind != http::Transfer::Kind::kMoved) return;
    size_t left = written.bytes;
    unsent_ -= left;
    while (left > 0) {
      const size_t rest = outbox_.front().size() - offset_;
      if (left < rest) {
        offset_ += left;
        break;
      }
      left -= rest;
      outbox_.pop_front();
      offset_ = 0;
    }
  }
  watch_for(reads_, false);
  if (finishing_ && !broken_) (void)stream_->finish_sending();
}

void Upstream::finish_writing() {
  finishing_ = true;
  if (outbox_.empty() && !broken_) (void)stream_->finish_sending();
}

void Upstream::watch_reads(bool reads) {
  // The program may wait for that before it writes on.
  if (reads && stream_) http::acknowledge(*stream_);
  watch_for(reads, writes_);
  if (!reads || !hung_up_) return;
  loop_.cancel(soon_);
  soon_ = loop_.call_after(Duration::zero(), [this] {
    const std::function<void()> tell = events_.on_readable;
    if (reads_ && tell) tell();
  });
}

void Upstream::watch_for(bool reads, bool writes) {
  if (reads == reads_ && writes == writes_) return;
  reads_ = reads;
  writes_ = writes;
  if (!hung_up_) watch_.update(reads, writes);
}

}  // namespace lambent::http_relay
