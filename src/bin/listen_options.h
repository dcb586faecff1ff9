// ListenOptions: where the worker's API is served and to whom, as --listen, --socket, --host,
// --tls-certificate and their kin give it. Used by the worker's main.
#pragma once

#include <sys/types.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bin/listening_sockets.h"
#include "core/base/log.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/http/limits.h"
#include "core/http/server.h"
#include "core/tls/node_identity.h"
#include "edge/frontend/request_guard.h"
#include "edge/frontend/trusted_proxies.h"

namespace lambent {

struct ListenOptions {
  // HOST is an IP address; nothing: no TCP.
  std::optional<http::Authority> tcp =
      http::Authority{http::Authority::Kind::kIpv4, "127.0.0.1", 8980};
  // Beside loopback names, what Host may name.
  std::vector<http::Authority> names;
  // Each HTTP function NAME is at NAME.function_domain too; empty: at its path only.
  std::string function_domain = "lambent.localhost";
  frontend::TrustedProxies trusted_proxies;
  std::string socket_path;  // empty: none
  mode_t socket_mode = 0660;
  std::optional<gid_t> socket_group;
  // With a certificate TCP is served as HTTPS.
  tls::NodeFiles tls;
  // Where lambent-grpc listens, whom it asks (empty: where this worker listens) and whose signature
  // of that one's certificate it takes (empty: those of this machine). No address: it is not
  // started.
  std::string grpc, grpc_worker, grpc_worker_authorities;
  // For the head of a request, and for a body that is not passed on as it comes.
  Duration head_timeout = limits::kHttpHeaderTimeout;
  Duration body_timeout = limits::kHttpBodyTimeout;
  // --insecure-open-to-network was given.
  bool open_to_network = false;
  // Clients prove who they are before they may do anything.
  bool asks_who_clients_are = false;
};

// Whether TCP beyond loopback may be served without --insecure-open-to-network: what is sent cannot
// be read on the way, and not everyone who reaches the address may deploy and run code.
bool may_open_to_network(const ListenOptions& options);

// The flags of an app, which must not outlive them.
class ListenFlags {
 public:
  explicit ListenFlags(CLI::App& app);

  // After parsing; `default_socket` is for --listen none without --socket. INVALID_ARGUMENT,
  // with the flag to blame, if they make no sense or would open the API to the network although
  // may_open_to_network() says no and --insecure-open-to-network is not given.
  Result<void> read(const std::string& default_socket, ListenOptions& options) const;

 private:
  Result<void> read_tls(ListenOptions& options) const;
  Result<void> read_grpc(ListenOptions& options) const;

  std::string listen_;
  std::vector<std::string> names_;
  std::vector<std::string> proxies_;
  bool open_to_network_ = false;
  std::string function_domain_;
  std::string socket_;
  std::string socket_mode_;
  std::string socket_group_;
  tls::NodeFiles tls_;
  bool client_required_ = false;
  double head_timeout_s_;
  double body_timeout_s_;
  std::string grpc_, grpc_worker_, grpc_worker_authorities_;
};

frontend::HostPolicy host_policy(const ListenOptions& options);
// Takes the listeners from `sockets` and gives them to `server`; returns the endpoint that clients
// use. TCP is encrypted by `identity` if that has a server; null: there is none.
Result<std::string> listen_all(const ListenOptions& options, tls::NodeIdentity* identity,
                               http::Server& server, ListeningSockets& sockets, LogSink& log);

}  // namespace lambent
