#include "core/tls/secure_stream.h"

#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/tls/socket_bio.h"

namespace lambent::tls {
namespace {

using http::Transfer;

constexpr size_t kRecord = SSL3_RT_MAX_PLAIN_LENGTH;
// One call moves so much at most, so that others have their turn.
constexpr size_t kMostWritten = 16 * kRecord;

// Small parts of one message go into one record: each costs a system call and 22 bytes.
class Staging {
 public:
  // The next bytes to send, at most a record of them; `skipped` bytes are sent already.
  std::string_view next(std::span<const iovec> parts, size_t skipped) {
    size_t filled = 0;
    for (const iovec& part : parts) {
      const size_t passed = std::min(skipped, part.iov_len);
      skipped -= passed;
      const char* data = static_cast<const char*>(part.iov_base) + passed;
      const size_t size = part.iov_len - passed;
      if (filled == 0 && size >= kRecord) return {data, kRecord};
      const size_t taken = std::min(size, kRecord - filled);
      if (taken > 0) memcpy(bytes_ + filled, data, taken);
      filled += taken;
      if (filled == kRecord) break;
    }
    return {bytes_, filled};
  }

 private:
  char bytes_[kRecord];
};

// What an alert of the peer means to people.
const char* meaning_of(unsigned long code) {
  switch (ERR_GET_REASON(code)) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
      return "the other side wants a certificate of this one, or offers nothing that both speak";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
      return "the other side does not know the authority that signed this one's certificate";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      return "to the other side this one's certificate is expired or not yet valid";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
      return "to the other side this one's certificate is revoked";
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
      return "the other side refused this one's certificate";
    default:
      return nullptr;
  }
}

// Before a call whose failure is looked at: both belong to the thread.
void forget_errors() {
  ERR_clear_error();
  errno = 0;
}

Error lost(std::string why) { return {ErrorCode::kUnavailable, std::move(why)}; }

}  // namespace

std::unique_ptr<http::Stream> SecureStream::make(OwnedFd fd, OwnedSsl ssl,
                                                 HandshakeCounts* counts) {
  OwnedBio bio = socket_bio(fd.get());
  if (bio == nullptr) return nullptr;
  BIO* const shared = bio.release();  // one for both directions; SSL_set_bio takes one reference
  SSL_set_bio(ssl.get(), shared, shared);
  return std::unique_ptr<http::Stream>(new SecureStream(std::move(fd), std::move(ssl), counts));
}

SecureStream::SecureStream(OwnedFd fd, OwnedSsl ssl, HandshakeCounts* counts)
    : fd_(std::move(fd)), ssl_(std::move(ssl)), counts_(counts) {}

SecureStream::~SecureStream() {
  if (phase_ == Phase::kOpen) finish_sending();
  if (phase_ == Phase::kHandshake) {
    failure_.message = "the other side did not finish the handshake";
    count_failure();
  }
  ERR_clear_error();  // the queue is the thread's, not this stream's
}

Transfer SecureStream::read(std::span<char> into) {
  if (phase_ == Phase::kForeign || phase_ == Phase::kBroken) return drop_input(into);
  if (counts_ != nullptr && !has_read_ && speaks_plain_http()) {
    phase_ = Phase::kForeign;
    failure_ = {ErrorCode::kInvalidArgument,
                "this port speaks HTTPS: use a URL that begins with https://"};
    count_failure();
    return {Transfer::Kind::kForeign};
  }
  size_t filled = 0;
  // Without room for a whole record, a part of it would stay here.
  while (into.size() - filled >= kRecord || filled == 0) {
    forget_errors();
    size_t got = 0;
    const int returned = SSL_read_ex(ssl_.get(), into.data() + filled, into.size() - filled, &got);
    note_handshake();
    if (phase_ == Phase::kBroken) return {Transfer::Kind::kRefused};
    if (returned != 1 && filled == 0) return no_transfer(returned);
    if (returned != 1) break;  // it is found again next time
    filled += got;
    if (got < kRecord) break;  // most likely the last one
  }
  return {Transfer::Kind::kMoved, filled};
}

Transfer SecureStream::peek() {
  if (phase_ != Phase::kOpen) return {Transfer::Kind::kFailed};
  forget_errors();
  char byte;
  size_t got = 0;
  const int returned = SSL_peek_ex(ssl_.get(), &byte, 1, &got);
  return returned == 1 ? Transfer{Transfer::Kind::kMoved, got} : no_transfer(returned);
}

Transfer SecureStream::write(std::span<const iovec> parts) {
  if (phase_ == Phase::kBroken) return {Transfer::Kind::kFailed};
  if (phase_ == Phase::kForeign) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    const ssize_t sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
    if (sent >= 0) return {Transfer::Kind::kMoved, static_cast<size_t>(sent)};
    return {would_block() ? Transfer::Kind::kWaitsToWrite : Transfer::Kind::kFailed};
  }
  Staging staging;
  size_t moved = 0;
  while (moved < kMostWritten) {
    const std::string_view bytes = staging.next(parts, moved);
    if (bytes.empty()) break;
    forget_errors();
    size_t written = 0;
    const int returned = SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &written);
    note_handshake();
    if (phase_ == Phase::kBroken) return {Transfer::Kind::kFailed};
    if (returned != 1 && moved == 0) return no_write(returned);
    if (returned != 1) break;
    moved += written;
  }
  return {Transfer::Kind::kMoved, moved};
}

bool SecureStream::finish_sending() {
  if (phase_ == Phase::kOpen && !end_is_sent_) {
    forget_errors();
    const int returned = SSL_shutdown(ssl_.get());
    if (returned < 0 && SSL_get_error(ssl_.get(), returned) == SSL_ERROR_WANT_WRITE) return false;
    end_is_sent_ = true;
  }
  shutdown(fd_.get(), SHUT_WR);
  return true;
}

bool SecureStream::holds_input() const {
  if (phase_ != Phase::kOpen) return false;
  // A peer's goodbye that came right behind a full record was read with it.
  const bool has_end = (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
  return has_end || SSL_pending(ssl_.get()) > 0;
}

const http::PeerCertificate* SecureStream::peer_certificate() const {
  return peer_ ? &*peer_ : nullptr;
}

bool SecureStream::speaks_plain_http() const {
  char first = 0;
  return recv(fd_.get(), &first, 1, MSG_PEEK) == 1 && first >= 'A' && first <= 'Z';
}

void SecureStream::note_handshake() {
  has_read_ = true;
  if (phase_ != Phase::kHandshake || SSL_is_init_finished(ssl_.get()) != 1) return;
  phase_ = Phase::kOpen;
  X509* const shown = SSL_get0_peer_certificate(ssl_.get());
  // A session that is resumed brings the certificate with which it began.
  if (shown != nullptr && X509_cmp_current_time(X509_get0_notAfter(shown)) < 0) {
    phase_ = Phase::kBroken;
    failure_ = {ErrorCode::kUnauthenticated, "the other side's certificate has expired"};
    count_failure();
    return;
  }
  has_agreed_ = true;
  if (counts_ != nullptr) {
    ++counts_->finished;
    if (SSL_session_reused(ssl_.get()) == 1) ++counts_->resumed;
  }
  if (shown != nullptr) peer_ = names_of(shown);
}

Transfer SecureStream::drop_input(std::span<char> scratch) {
  const ssize_t got = recv(fd_.get(), scratch.data(), scratch.size(), 0);
  if (got == 0) return {Transfer::Kind::kEnd};
  // None of it is given to the caller, who would take it for what the peer said in secret.
  const bool may_go_on = got > 0 || would_block();
  return {may_go_on ? Transfer::Kind::kWaitsToRead : Transfer::Kind::kFailed};
}

Transfer SecureStream::no_transfer(int returned) {
  const int system_error = errno;
  switch (SSL_get_error(ssl_.get(), returned)) {
    case SSL_ERROR_WANT_READ:
      return {Transfer::Kind::kWaitsToRead};
    case SSL_ERROR_WANT_WRITE:
      return {Transfer::Kind::kWaitsToWrite};
    case SSL_ERROR_ZERO_RETURN:
      return {Transfer::Kind::kEnd};
    case SSL_ERROR_SYSCALL:
      // The end without a goodbye has no errno.
      return give_up(lost(system_error == 0 ? "the other side closed the connection"
                                            : std::string(strerror(system_error))),
                     Transfer::Kind::kFailed);
    default:
      break;
  }
  if (ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    return give_up(lost("the other side closed the connection"), Transfer::Kind::kFailed);
  }
  return give_up(protocol_failure(), Transfer::Kind::kRefused);
}

Transfer SecureStream::no_write(int returned) {
  const Phase before = phase_;
  const Transfer transfer = no_transfer(returned);
  if (transfer.kind == Transfer::Kind::kFailed) phase_ = before;
  return transfer;
}

Transfer SecureStream::give_up(Error why, Transfer::Kind kind) {
  const bool in_handshake = phase_ == Phase::kHandshake;
  phase_ = Phase::kBroken;
  failure_ = std::move(why);
  if (in_handshake) count_failure();
  return {kind};
}

void SecureStream::count_failure() {
  if (counts_ == nullptr) return;
  ++counts_->failed;
  counts_->last_failure = failure_.message;
}

Error SecureStream::protocol_failure() {
  // Below TLS's own error, the last one, may lie those of what it called.
  const unsigned long code = ERR_peek_last_error();
  const int reason = ERR_GET_REASON(code);
  const char* reason_text = ERR_reason_error_string(code);
  const std::string text = reason_text == nullptr ? "unknown reason" : reason_text;
  ERR_clear_error();
  if (const long verified = SSL_get_verify_result(ssl_.get()); verified != X509_V_OK) {
    return {ErrorCode::kUnauthenticated, "the other side's certificate is refused: " +
                                             std::string(X509_verify_cert_error_string(verified))};
  }
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
    return {ErrorCode::kUnauthenticated, "the other side shows no certificate"};
  }
  if (const char* meaning = meaning_of(code)) {
    return {ErrorCode::kUnauthenticated, std::string(meaning) + " (" + text + ")"};
  }
  if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST) {
    return {ErrorCode::kFailedPrecondition,
            "the other side does not speak TLS 1.2 or 1.3; does it serve http://? (" + text + ")"};
  }
  return {ErrorCode::kFailedPrecondition, "TLS failed: " + text};
}

}  // namespace lambent::tls
