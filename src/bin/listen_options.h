// ListenOptions: where the worker's API is served and to whom, as --listen, --socket, --host and
// their kin give it. Used by the worker's main.
#pragma once

#include <sys/types.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/base/result.h"
#include "core/http/server.h"
#include "edge/frontend/request_guard.h"

namespace lambent {

struct ListenOptions {
  // HOST is an IP address; nothing: no TCP.
  std::optional<http::Authority> tcp =
      http::Authority{http::Authority::Kind::kIpv4, "127.0.0.1", 8980};
  // Beside loopback names, what Host may name.
  std::vector<http::Authority> names;
  std::string socket_path;  // empty: none
  mode_t socket_mode = 0660;
  std::optional<gid_t> socket_group;
};

// The flags of an app, which must not outlive them.
class ListenFlags {
 public:
  explicit ListenFlags(CLI::App& app);

  // After parsing; `default_socket` is for --listen none without --socket. INVALID_ARGUMENT,
  // with the flag to blame, if they make no sense or would open the API to the network without
  // --insecure-open-to-network.
  Result<void> read(const std::string& default_socket, ListenOptions& options) const;

 private:
  std::string listen_;
  std::vector<std::string> names_;
  bool open_to_network_ = false;
  std::string socket_;
  std::string socket_mode_;
  std::string socket_group_;
};

frontend::HostPolicy host_policy(const ListenOptions& options);
// Opens the listeners and gives them to `server`; returns the endpoint that clients use.
Result<std::string> listen_all(const ListenOptions& options, http::Server& server, LogSink& log);

}  // namespace lambent
