#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "core/http/acknowledge.h"
#include "core/http/stream.h"

namespace lambent::http {
namespace {

class PlainStream final : public Stream {
 public:
  explicit PlainStream(OwnedFd fd) : fd_(std::move(fd)) {}

  int fd() const override { return fd_.get(); }

  Transfer read(std::span<char> into) override {
    return received(recv(fd_.get(), into.data(), into.size(), 0));
  }

  Transfer peek() override {
    char byte;
    return received(recv(fd_.get(), &byte, 1, MSG_PEEK));
  }

  Transfer write(std::span<const iovec> parts) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    const ssize_t sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
    if (sent >= 0) return {Transfer::Kind::kMoved, static_cast<size_t>(sent)};
    return failed(Transfer::Kind::kWaitsToWrite);
  }

  bool finish_sending() override {
    shutdown(fd_.get(), SHUT_WR);
    return true;
  }

  bool holds_input() const override { return false; }
  bool is_ready() const override { return true; }
  const PeerCertificate* peer_certificate() const override { return nullptr; }
  Error failure() const override {
    Error error = error_from_errno("use a connection", error_number_);
    error.code = ErrorCode::kUnavailable;
    return error;
  }

 private:
  Transfer received(ssize_t got) {
    if (got > 0) return {Transfer::Kind::kMoved, static_cast<size_t>(got)};
    if (got == 0) return {Transfer::Kind::kEnd};
    return failed(Transfer::Kind::kWaitsToRead);
  }
  Transfer failed(Transfer::Kind otherwise) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {otherwise};
    error_number_ = errno;
    return {Transfer::Kind::kFailed};
  }

  OwnedFd fd_;
  int error_number_ = 0;
};

}  // namespace

void acknowledge(const Stream& stream) {
  const int on = 1;
  setsockopt(stream.fd(), IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
}

std::unique_ptr<Stream> plain_stream(OwnedFd fd) {
  return std::make_unique<PlainStream>(std::move(fd));
}

}  // namespace lambent::http
