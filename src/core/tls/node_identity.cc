#include "core/tls/node_identity.h"

#include <utility>

namespace lambent::tls {
namespace {

// Between two looks at the files, and between two warnings of the certificate's end.
constexpr Duration kLookEvery = seconds(5);
constexpr Duration kWarnEvery = std::chrono::hours(12);

CredentialFiles client_files(const NodeFiles& files) {
  return {.certificate = files.server.certificate,
          .key = files.server.key,
          .authorities = files.peer_authorities};
}

}  // namespace

Result<NodeIdentity::Loaded> NodeIdentity::load(const NodeFiles& files, const Loaded* then) {
  Loaded loaded;
  ASSIGN_OR_RETURN(loaded.server_files, read_credentials(files.server));
  ASSIGN_OR_RETURN(loaded.client_files, read_credentials(client_files(files)));
  if (then != nullptr && loaded.server_files == then->server_files &&
      loaded.client_files == then->client_files) {
    return loaded;
  }
  if (!files.server.certificate.empty()) {
    ASSIGN_OR_RETURN(loaded.server, ServerContext::make(loaded.server_files, files.clients));
  }
  ASSIGN_OR_RETURN(loaded.client, ClientContext::make(loaded.client_files));
  return loaded;
}

Result<std::unique_ptr<NodeIdentity>> NodeIdentity::open(NodeFiles files, loop::EventLoop& loop,
                                                         LogSink& log, Disk disk) {
  ASSIGN_OR_RETURN(Loaded loaded, load(files, nullptr));
  return std::unique_ptr<NodeIdentity>(
      new NodeIdentity(std::move(files), loop, log, std::move(disk), std::move(loaded)));
}

NodeIdentity::NodeIdentity(NodeFiles files, loop::EventLoop& loop, LogSink& log, Disk disk,
                           Loaded loaded)
    : files_(std::move(files)), loop_(loop), log_(log), disk_(std::move(disk)) {
  use(std::move(loaded));
  warn_of_expiry();
  look_soon();
}

NodeIdentity::~NodeIdentity() {
  *is_here_ = false;
  loop_.cancel(timer_);
}

http::StreamFactory NodeIdentity::acceptor() {
  return [this](OwnedFd fd) { return current_.server->encrypt(std::move(fd), handshakes_); };
}

http::SecureConnector NodeIdentity::connector() const {
  return [side = peer_side_](OwnedFd fd, const std::string& host) {
    std::optional<ClientContext> client;
    {
      const MutexLock lock(side->mutex);
      client = side->client;
    }
    return client->encrypt(std::move(fd), host);
  };
}

void NodeIdentity::use(Loaded loaded) {
  current_ = std::move(loaded);
  const MutexLock lock(peer_side_->mutex);
  peer_side_->client = current_.client;
}

void NodeIdentity::reload() {
  is_asked_ = true;
  look_again();
}

void NodeIdentity::look_soon() {
  loop_.cancel(timer_);
  timer_ = loop_.call_after(kLookEvery, [this] {
    tell_failures();
    warn_of_expiry();
    look_again();
  });
}

void NodeIdentity::look_again() {
  look_soon();
  if (is_looking_) return;  // finish_look() sees to it that a reload() is not lost
  const auto loaded = std::make_shared<Result<Loaded>>(Loaded());
  is_looking_ = disk_([loaded, files = files_, then = current_] { *loaded = load(files, &then); },
                      [this, loaded, is_here = is_here_] {
                        if (!*is_here) return;
                        finish_look(std::move(*loaded));
                        if (is_asked_) look_again();
                      });
  if (is_looking_) looks_as_asked_ = std::exchange(is_asked_, false);
}

void NodeIdentity::finish_look(Result<Loaded> loaded) {
  is_looking_ = false;
  // One that is not valid now does not replace one that is: the clock or the files are wrong.
  const Duration now = loop_.clock().wall_now();
  if (loaded.ok() && loaded->server && current_.server->validity().contains(now) &&
      !loaded->server->validity().contains(now)) {
    const Validity validity = loaded->server->validity();
    loaded =
        Error{ErrorCode::kFailedPrecondition,
              files_.server.certificate + ": the new certificate is valid from " +
                  date_of(validity.not_before) + " to " + date_of(validity.not_after) + " only"};
  }
  if (!loaded.ok()) {
    if (!looks_as_asked_ && loaded.error().message == last_error_) return;
    last_error_ = loaded.error().message;
    ++failed_reloads_;
    log_.error("tls_reload_failed",
               {{"error", to_string(loaded.error())}, {"in_use", "what was loaded before"}});
    return;
  }
  last_error_.clear();
  if (!loaded->client) {
    if (looks_as_asked_) log_.info("tls_reload", {{"changed", false}});
    return;
  }
  use(std::move(*loaded));
  ++reloads_;
  const Duration end = current_.server ? current_.server->validity().not_after : Duration::zero();
  log_.info("tls_reload", {{"changed", true}, {"valid_until", date_of(end)}});
  warn_after_ = {};
  warn_of_expiry();
}

void NodeIdentity::warn_of_expiry() {
  if (!current_.server || loop_.clock().now() < warn_after_) return;
  const Duration wall = loop_.clock().wall_now();
  const Validity& validity = current_.server->validity();
  const bool is_valid = validity.contains(wall);
  if (is_valid && validity.not_after - wall > kExpiryWarning) return;
  warn_after_ = loop_.clock().now() + kWarnEvery;
  log_.warning(is_valid ? "tls_certificate_expires" : "tls_certificate_not_valid",
               {{"file", files_.server.certificate},
                {"valid_from", date_of(validity.not_before)},
                {"valid_until", date_of(validity.not_after)}});
}

// A line for many: those who fail may come often.
void NodeIdentity::tell_failures() {
  if (handshakes_.failed == told_failures_) return;
  log_.info("tls_handshakes_failed",
            {{"count", static_cast<int64_t>(handshakes_.failed - told_failures_)},
             {"last", handshakes_.last_failure}});
  told_failures_ = handshakes_.failed;
}

IdentityStatistics NodeIdentity::statistics() const {
  return {.expires_at = current_.server ? current_.server->validity().not_after : Duration::zero(),
          .reloads = reloads_,
          .failed_reloads = failed_reloads_,
          .handshakes = handshakes_};
}

}  // namespace lambent::tls
