#include "core/tls/context.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <utility>

#include "core/tls/secure_stream.h"

namespace lambent::tls {
namespace {

constexpr unsigned char kProtocols[] = "\x08http/1.1";
constexpr unsigned kProtocolsSize = sizeof kProtocols - 1;

Error wrong(const std::string& file, const std::string& what) {
  return {ErrorCode::kInvalidArgument, file + ": " + what};
}

OwnedBio text_bio(const std::string& text) {
  return OwnedBio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Keys with a passphrase are refused, rather than asked for on the terminal.
int no_passphrase(char*, int, int, void*) { return -1; }

int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* size,
                    const unsigned char* offered, unsigned offered_size, void*) {
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, size, kProtocols, kProtocolsSize, offered, offered_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

std::shared_ptr<SSL_CTX> new_context(const SSL_METHOD* method) {
  ERR_clear_error();
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(method), SSL_CTX_free);
  if (context == nullptr) return nullptr;
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                         SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  return context;
}

Error no_context() {
  return {ErrorCode::kInternal, "OpenSSL gave no context: " + take_openssl_error()};
}

// Every certificate of the text in order; nothing may stand between them that is none.
Result<std::vector<OwnedCertificate>> certificates_in(const std::string& text,
                                                      const std::string& file) {
  std::vector<OwnedCertificate> found;
  const OwnedBio bio = text_bio(text);
  for (;;) {
    OwnedCertificate next(PEM_read_bio_X509(bio.get(), nullptr, no_passphrase, nullptr));
    if (next == nullptr) break;
    found.push_back(std::move(next));
  }
  // The end of the text is an error to OpenSSL too.
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (!at_end) return wrong(file, "a certificate cannot be read: " + take_openssl_error());
  ERR_clear_error();
  if (found.empty()) return wrong(file, "there is no certificate in it (PEM is expected)");
  return found;
}

Result<Validity> use_certificate(SSL_CTX* context, const Credentials& credentials) {
  const std::string& file = credentials.files.certificate;
  ASSIGN_OR_RETURN(const auto chain, certificates_in(credentials.certificate, file));
  if (SSL_CTX_use_certificate(context, chain[0].get()) != 1) {
    return wrong(file, "OpenSSL does not take this certificate: " + take_openssl_error());
  }
  for (size_t i = 1; i < chain.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context, chain[i].get()) != 1) {
      return wrong(file, "OpenSSL does not take its certificate " + std::to_string(i + 1) + ": " +
                             take_openssl_error());
    }
  }
  const OwnedBio bio = text_bio(credentials.key);
  const OwnedKey key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
  if (key == nullptr) {
    return wrong(credentials.files.key,
                 "there is no private key in it that can be read (PEM without a passphrase is "
                 "expected): " +
                     take_openssl_error());
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1) {
    return wrong(credentials.files.key, "this key is not that of the certificate in " + file +
                                            ": " + take_openssl_error());
  }
  return validity_of(chain[0].get());
}

// Revocation lists, if the text has any: then what they do not cover is not trusted either.
Result<void> add_revocations(X509_STORE* store, const std::string& text, const std::string& file) {
  const OwnedBio bio = text_bio(text);
  size_t count = 0;
  for (;; ++count) {
    const OwnedRevocations next(PEM_read_bio_X509_CRL(bio.get(), nullptr, no_passphrase, nullptr));
    if (next == nullptr) break;
    if (X509_STORE_add_crl(store, next.get()) != 1) {
      return wrong(file, "a revocation list is not taken: " + take_openssl_error());
    }
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (!at_end) return wrong(file, "a revocation list cannot be read: " + take_openssl_error());
  ERR_clear_error();
  if (count > 0) X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
  return {};
}

Result<void> trust(SSL_CTX* context, const Credentials& credentials, bool name_them_to_clients) {
  const std::string& file = credentials.files.authorities;
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  ASSIGN_OR_RETURN(const auto authorities, certificates_in(credentials.authorities, file));
  for (const OwnedCertificate& authority : authorities) {
    if (X509_STORE_add_cert(store, authority.get()) != 1) {
      return wrong(file, "an authority is not taken: " + take_openssl_error());
    }
    if (name_them_to_clients) SSL_CTX_add_client_CA(context, authority.get());
  }
  return add_revocations(store, credentials.authorities, file);
}

}  // namespace

Result<ServerContext> ServerContext::make(const Credentials& credentials,
                                          ClientCertificates clients) {
  ServerContext made(new_context(TLS_server_method()));
  SSL_CTX* context = made.context_.get();
  if (context == nullptr) return no_context();
  ASSIGN_OR_RETURN(made.validity_, use_certificate(context, credentials));
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
  // Only tickets: nothing is kept of a session here.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_timeout(context, std::chrono::duration_cast<seconds>(kSessionLife).count());
  constexpr unsigned char kSessionUse[] = "lambent";
  SSL_CTX_set_session_id_context(context, kSessionUse, sizeof kSessionUse - 1);
  if (clients == ClientCertificates::kNotAsked) return made;
  RETURN_IF_ERROR(trust(context, credentials, true));
  const int required =
      clients == ClientCertificates::kRequired ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0;
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | required, nullptr);
  return made;
}

std::unique_ptr<http::Stream> ServerContext::encrypt(OwnedFd fd, HandshakeCounts& counts) const {
  OwnedSsl ssl(SSL_new(context_.get()));
  if (ssl == nullptr) return nullptr;
  SSL_set_accept_state(ssl.get());
  return SecureStream::make(std::move(fd), std::move(ssl), &counts);
}

Result<ClientContext> ClientContext::make(const Credentials& credentials) {
  ClientContext made(new_context(TLS_client_method()));
  SSL_CTX* context = made.context_.get();
  if (context == nullptr) return no_context();
  if (!credentials.files.certificate.empty()) {
    RETURN_IF_ERROR(use_certificate(context, credentials));
  }
  if (!credentials.files.authorities.empty()) {
    RETURN_IF_ERROR(trust(context, credentials, false));
  } else if (SSL_CTX_set_default_verify_paths(context) != 1) {
    return Error{ErrorCode::kFailedPrecondition,
                 "the authorities of this machine cannot be read: " + take_openssl_error()};
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_alpn_protos(context, kProtocols, kProtocolsSize);
  return made;
}

Result<std::unique_ptr<http::Stream>> ClientContext::encrypt(OwnedFd fd,
                                                             const std::string& host) const {
  OwnedSsl ssl(SSL_new(context_.get()));
  if (ssl == nullptr) return no_context();
  SSL_set_connect_state(ssl.get());
  X509_VERIFY_PARAM* verify = SSL_get0_param(ssl.get());
  X509_VERIFY_PARAM_set_hostflags(
      verify, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  in6_addr address{};
  const bool is_address = inet_pton(AF_INET, host.c_str(), &address) == 1 ||
                          inet_pton(AF_INET6, host.c_str(), &address) == 1;
  const bool done = is_address
                        ? X509_VERIFY_PARAM_set1_ip_asc(verify, host.c_str()) == 1
                        : X509_VERIFY_PARAM_set1_host(verify, host.data(), host.size()) == 1 &&
                              SSL_set_tlsext_host_name(ssl.get(), host.c_str()) == 1;
  // Without a name to check every host would do.
  if (!done || host.empty()) {
    return Error{ErrorCode::kInvalidArgument, "'" + host + "' is not a host that TLS can name"};
  }
  std::unique_ptr<http::Stream> stream = SecureStream::make(std::move(fd), std::move(ssl), nullptr);
  if (stream == nullptr) return no_context();
  return stream;
}

http::SecureConnector ClientContext::connector() const {
  return [context = *this](OwnedFd fd, const std::string& host) {
    return context.encrypt(std::move(fd), host);
  };
}

}  // namespace lambent::tls
