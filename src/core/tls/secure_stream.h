// SecureStream: a connection through TLS, as either side; the handshake happens within read, peek
// and write. Made by contexts; its owner's thread.
//
// OpenSSL reads record by record, so that what it has not read waits in the kernel, as with a plain
// connection, and what write() moved is with the kernel too. Only peek() leaves a record here.
#pragma once

#include <optional>

#include "core/http/stream.h"
#include "core/tls/context.h"
#include "core/tls/openssl.h"

namespace lambent::tls {

class SecureStream final : public http::Stream {
 public:
  // `ssl` knows which side it is. Null if there is no memory. With `counts` it is a server's.
  static std::unique_ptr<http::Stream> make(OwnedFd fd, OwnedSsl ssl, HandshakeCounts* counts);
  ~SecureStream() override;

  int fd() const override { return fd_.get(); }
  http::Transfer read(std::span<char> into) override;
  http::Transfer peek() override;
  http::Transfer write(std::span<const iovec> parts) override;
  bool finish_sending() override;
  bool holds_input() const override;
  bool is_ready() const override { return has_agreed_; }
  const http::PeerCertificate* peer_certificate() const override;
  Error failure() const override { return failure_; }

 private:
  enum class Phase {
    kHandshake,
    kOpen,
    kForeign,  // the peer does not encrypt; neither do we
    kBroken    // OpenSSL has given up, and has told the peer why if it could
  };

  SecureStream(OwnedFd fd, OwnedSsl ssl, HandshakeCounts* counts);

  // Whether the peer begins with a method of HTTP instead of a handshake.
  bool speaks_plain_http() const;
  void note_handshake();
  // Reads and forgets; `scratch` is for that.
  http::Transfer drop_input(std::span<char> scratch);
  // What a call of OpenSSL that returned `returned` came to; looks at errno.
  http::Transfer no_transfer(int returned);
  // The same of a write, after whose failure the peer's reason may still be read.
  http::Transfer no_write(int returned);
  http::Transfer give_up(Error why, http::Transfer::Kind kind);
  void count_failure();
  Error protocol_failure();

  OwnedFd fd_;
  OwnedSsl ssl_;
  HandshakeCounts* const counts_;
  Phase phase_ = Phase::kHandshake;
  bool has_agreed_ = false;  // the handshake is over
  bool has_read_ = false;
  bool end_is_sent_ = false;
  std::optional<http::PeerCertificate> peer_;
  Error failure_;
};

}  // namespace lambent::tls
