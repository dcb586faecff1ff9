// NodeIdentity: what a worker proves to be now, to its clients and to its peers. It reads the files
// again when told, and when they have changed; what is broken is logged, and what it had stays in
// use. Loop thread; files are read on a thread that may wait.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/http/stream.h"
#include "core/loop/event_loop.h"
#include "core/tls/context.h"
#include "core/tls/credentials.h"

namespace lambent::tls {

struct NodeFiles {
  // Of the server. Without a certificate there is none, and peers are shown none.
  CredentialFiles server;
  ClientCertificates clients = ClientCertificates::kNotAsked;  // by server.authorities
  // Who signs the certificates of peers; empty: the authorities of this machine.
  std::string peer_authorities;
};

struct IdentityStatistics {
  Duration expires_at{};  // since the Unix epoch
  uint64_t reloads = 0;   // that put something new into use
  uint64_t failed_reloads = 0;
  HandshakeCounts handshakes;
};

class NodeIdentity {
 public:
  // Runs work on another thread and then its completion on the loop; false if it is too busy.
  using Disk = std::function<bool(std::function<void()> work, std::function<void()> completion)>;

  // Reads the files at once. The errors are those of reading and of making contexts.
  static Result<std::unique_ptr<NodeIdentity>> open(NodeFiles files, loop::EventLoop& loop,
                                                    LogSink& log, Disk disk);
  ~NodeIdentity();
  NodeIdentity(const NodeIdentity&) = delete;
  NodeIdentity& operator=(const NodeIdentity&) = delete;

  bool has_server() const { return current_.server.has_value(); }
  // Encrypts each connection under what is in use when it comes. Must not outlive this; there must
  // be a server.
  http::StreamFactory acceptor();
  // Encrypts each connection under what is in use when it is made. Any thread, also when this is
  // gone.
  http::SecureConnector connector() const;
  // Reads the files and, if they have changed, puts them into use, soon.
  void reload();
  IdentityStatistics statistics() const;

 private:
  // What was read together.
  struct Loaded {
    Credentials server_files;
    Credentials client_files;
    std::optional<ServerContext> server;
    std::optional<ClientContext> client;
  };
  // `then` was loaded before: if nothing has changed since, there are no contexts.
  static Result<Loaded> load(const NodeFiles& files, const Loaded* then);

  NodeIdentity(NodeFiles files, loop::EventLoop& loop, LogSink& log, Disk disk, Loaded loaded);
  void use(Loaded loaded);
  void look_soon();
  void look_again();
  void finish_look(Result<Loaded> loaded);
  void warn_of_expiry();
  void tell_failures();

  // What connections to peers are made with, on threads that wait for peers.
  struct PeerSide {
    Mutex mutex;
    std::optional<ClientContext> client GUARDED_BY(mutex);
  };

  const NodeFiles files_;
  loop::EventLoop& loop_;
  LogSink& log_;
  const Disk disk_;
  Loaded current_;
  // Shared with the connectors, which may outlive this.
  const std::shared_ptr<PeerSide> peer_side_ = std::make_shared<PeerSide>();
  HandshakeCounts handshakes_;
  uint64_t told_failures_ = 0;
  uint64_t reloads_ = 0;
  uint64_t failed_reloads_ = 0;
  std::string last_error_;  // of a reload; told once
  bool is_asked_ = false;   // reload() was called, and no look has begun since
  bool is_looking_ = false;
  bool looks_as_asked_ = false;  // the look that goes on: its outcome is told in any case
  Instant warn_after_{};
  loop::TimerId timer_;
  // Whether a completion still finds this here.
  const std::shared_ptr<bool> is_here_ = std::make_shared<bool>(true);
};

// How long a certificate is still valid when its end is first warned of.
constexpr Duration kExpiryWarning = std::chrono::hours(24 * 14);

}  // namespace lambent::tls
