// Context: credentials that were checked, ready to encrypt connections: as the server of accepted
// ones, or as the client of connected ones. A value that shares OpenSSL's own; any thread.
//
// TLS 1.2 and 1.3 with OpenSSL's default ciphers; HTTP/1.1 by ALPN; no compression, no
// renegotiation, no early data. Sessions are resumed by tickets, whose keys are the context's: what
// was agreed under other credentials is not resumed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/http/stream.h"
#include "core/tls/certificate.h"
#include "core/tls/credentials.h"

namespace lambent::tls {

// How long a session may be resumed, and so how long a client certificate that has been revoked
// meanwhile goes on to be taken.
constexpr Duration kSessionLife = std::chrono::hours(1);

enum class ClientCertificates { kNotAsked, kAsked, kRequired };

// Of accepted connections, since the counts began. Loop thread only.
struct HandshakeCounts {
  uint64_t finished = 0;
  uint64_t resumed = 0;  // of these
  uint64_t failed = 0;   // one side refused, or the client left
  std::string last_failure;
};

class ServerContext {
 public:
  // INVALID_ARGUMENT, with the file to blame, if the text is no PEM, the key is not the
  // certificate's, or OpenSSL finds either too weak. That the certificate is valid now is not
  // asked. `authorities` sign the certificates of clients.
  static Result<ServerContext> make(const Credentials& credentials, ClientCertificates clients);

  // Null if there is no memory. `counts` outlives the stream.
  std::unique_ptr<http::Stream> encrypt(OwnedFd fd, HandshakeCounts& counts) const;
  Validity validity() const { return validity_; }  // of the own certificate

 private:
  explicit ServerContext(std::shared_ptr<SSL_CTX> context) : context_(std::move(context)) {}

  // Shared with the connections that began under it, which may outlive it.
  std::shared_ptr<SSL_CTX> context_;
  Validity validity_;
};

class ClientContext {
 public:
  // As the server's. Without `authorities` those of the machine sign the certificates of servers;
  // without a certificate none is shown.
  static Result<ClientContext> make(const Credentials& credentials);

  // The server's certificate must be signed by an authority, valid now, and name `host` among its
  // alternative names; there is no way around that.
  Result<std::unique_ptr<http::Stream>> encrypt(OwnedFd fd, const std::string& host) const;
  // The same as a function, which holds what it needs.
  http::SecureConnector connector() const;

 private:
  explicit ClientContext(std::shared_ptr<SSL_CTX> context) : context_(std::move(context)) {}

  // As above.
  std::shared_ptr<SSL_CTX> context_;
};

}  // namespace lambent::tls
