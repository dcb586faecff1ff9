#include "bin/listen_options.h"

#include <grp.h>

#include <charconv>
#include <utility>

#include "bin/flag_checks.h"
#include "core/http/limits.h"

namespace lambent {
namespace {

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

Result<std::optional<http::Authority>> read_listen(const std::string& text) {
  if (text == "none") return std::optional<http::Authority>();
  const size_t colon = text.rfind(':');
  // IPv6 addresses are taken without their brackets too.
  const bool bare_ipv6 =
      !text.starts_with('[') && colon != std::string::npos && text.find(':') != colon;
  const auto tcp = http::parse_authority(
      bare_ipv6 ? "[" + text.substr(0, colon) + "]" + text.substr(colon) : text);
  if (!tcp || !tcp->port || tcp->kind == http::Authority::Kind::kName) {
    const std::string_view port =
        text.starts_with("localhost:") ? std::string_view(text).substr(10) : text;
    const bool is_port = !port.empty() && port.find_first_not_of("0123456789") == port.npos;
    return invalid("--listen is ADDRESS:PORT, with an IP address, or none; not '" + text + "'" +
                   (is_port ? "; did you mean '127.0.0.1:" + std::string(port) + "'?" : ""));
  }
  return tcp;
}

Result<mode_t> read_mode(const std::string& text) {
  unsigned mode = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  if (problem != std::errc() || end != text.data() + text.size() || mode > 0777) {
    return invalid("--socket-mode is an octal mode such as 0660, not '" + text + "'");
  }
  return static_cast<mode_t>(mode);
}

Result<gid_t> read_group(const std::string& text) {
  gid_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem == std::errc() && end == text.data() + text.size()) return number;
  const group* found = getgrnam(text.c_str());
  if (found == nullptr) return invalid("--socket-group: there is no group '" + text + "'");
  return found->gr_gid;
}

Result<std::string> read_domain(const std::string& text,
                                const std::vector<http::Authority>& names) {
  if (text == "none") return std::string();
  const auto domain = http::parse_authority(text);
  if (!domain || domain->port || domain->kind != http::Authority::Kind::kName) {
    return invalid("--function-domain is a domain such as functions.example, or none; not '" +
                   text + "'");
  }
  // A page that a function answers with may use all that has its own host name.
  for (const http::Authority& name : names) {
    if (name.host.ends_with("." + domain->host)) {
      return invalid("--host " + name.host + " lies in --function-domain " + domain->host +
                     ", whose names are those of functions");
    }
  }
  return domain->host;
}

// An address that is in use: which flag chooses another.
template <typename T>
Result<T> or_elsewhere(Result<T> listening, const char* flag) {
  if (listening.ok() || listening.error().code != ErrorCode::kUnavailable) return listening;
  Error error = listening.error();
  error.message += "; choose another with " + std::string(flag);
  return error;
}

// What keeps TCP beyond loopback from being served.
std::string what_is_missing(const ListenOptions& options) {
  const bool encrypted = !options.tls.server.certificate.empty();
  if (encrypted) return "clients are encrypted, but not asked who they are";
  return options.asks_who_clients_are
             ? "clients are asked who they are, but their tokens are not encrypted: add "
               "--tls-certificate and --tls-key"
             : "clients are neither asked who they are nor encrypted";
}

}  // namespace

bool may_open_to_network(const ListenOptions& options) {
  return !options.tls.server.certificate.empty() && options.asks_who_clients_are;
}

ListenFlags::ListenFlags(CLI::App& app)
    : head_timeout_s_(to_seconds(limits::kHttpHeaderTimeout)),
      body_timeout_s_(to_seconds(limits::kHttpBodyTimeout)) {
  const ListenOptions defaults;
  listen_ = http::to_string(*defaults.tcp);
  socket_mode_ = "0660";
  function_domain_ = defaults.function_domain;
  app.add_option("--listen", listen_,
                 "ADDRESS:PORT of the HTTP API, or none: the Unix socket is the only way in")
      ->capture_default_str();
  app.add_option("--host", names_,
                 "NAME or NAME:PORT that clients may call this machine by, beside localhost and "
                 "loopback addresses; several: give it again");
  app.add_option(
         "--function-domain", function_domain_,
         "DOMAIN: the HTTP function NAME also has the host name NAME.DOMAIN; none: its path "
         "/f/NAME/ only")
      ->capture_default_str();
  app.add_option("--trusted-proxy", proxies_,
                 "ADDRESS, RANGE (10.0.0.0/8) or unix: reverse proxies whose X-Forwarded-For, "
                 "-Proto, -Host and -Prefix functions get as they say; several: give it again");
  app.add_option("--request-head-timeout", head_timeout_s_,
                 "seconds in which the head of a request is to come; later it is answered 408")
      ->check(bin::within(1.0, 3600.0))
      ->capture_default_str();
  app.add_option(
         "--request-body-timeout", body_timeout_s_,
         "seconds for a body that the worker keeps, such as an event, and one more for each 64 KiB "
         "that came; later it is answered 408")
      ->check(bin::within(1.0, 86400.0))
      ->capture_default_str();
  app.add_flag("--insecure-open-to-network", open_to_network_,
               "allow --listen with an address beyond loopback although clients are not asked who "
               "they are, or not encrypted: everyone who reaches it can deploy and run code");
  app.add_option("--socket", socket_,
                 "also listen on this Unix socket (with --listen none: lambent.sock in --run)");
  app.add_option("--socket-mode", socket_mode_, "mode of the Unix socket, in octal")
      ->capture_default_str();
  app.add_option("--socket-group", socket_group_, "group of the Unix socket, by name or number");
  app.add_option("--tls-certificate", tls_.server.certificate,
                 "serve HTTPS at --listen with the certificate in this PEM file, and show it to "
                 "peers; see docs/operate/tls.md");
  app.add_option("--tls-key", tls_.server.key, "the certificate's private key, in PEM");
  app.add_option("--tls-client-ca", tls_.server.authorities,
                 "ask clients for certificates, and take those that an authority in this PEM file "
                 "signed");
  app.add_flag("--tls-client-required", client_required_,
               "refuse clients that show no certificate");
  app.add_option("--peer-ca", tls_.peer_authorities,
                 "the authorities that sign the certificates of peers (default: those of "
                 "--tls-client-ca, else those of this machine)");
  app.add_option("--grpc", grpc_,
                 "HOST:PORT: starts lambent-grpc there and keeps it running: the Open Inference "
                 "Protocol by gRPC; TLS by --tls-certificate");
  app.add_option("--grpc-worker", grpc_worker_,
                 "URL by which lambent-grpc asks this worker, if the certificate does not name the "
                 "address of --listen");
  app.add_option("--grpc-worker-ca", grpc_worker_authorities_,
                 "authorities that sign this worker's certificate, for lambent-grpc (default: "
                 "those of this machine)");
}

Result<void> ListenFlags::read(const std::string& default_socket, ListenOptions& options) const {
  ASSIGN_OR_RETURN(options.tcp, read_listen(listen_));
  options.head_timeout = from_seconds(head_timeout_s_);
  options.body_timeout = from_seconds(body_timeout_s_);
  for (const std::string& text : names_) {
    const auto name = http::parse_authority(text);
    if (!name) return invalid("--host is NAME or NAME:PORT, not '" + text + "'");
    options.names.push_back(*name);
  }
  ASSIGN_OR_RETURN(options.function_domain, read_domain(function_domain_, options.names));
  auto proxies = frontend::TrustedProxies::parse(proxies_);
  if (!proxies.ok()) return invalid("--trusted-proxy: " + proxies.error().message);
  options.trusted_proxies = *std::move(proxies);
  RETURN_IF_ERROR(read_tls(options));
  if (options.tcp && !http::is_loopback(*options.tcp) && !may_open_to_network(options) &&
      !open_to_network_) {
    return invalid("--listen " + listen_ +
                   " would let everyone who reaches this address deploy and run code here: " +
                   what_is_missing(options) +
                   ". Listen on 127.0.0.1, or use --listen none and --socket; where the network is "
                   "trusted, add --insecure-open-to-network");
  }
  options.open_to_network = open_to_network_;
  RETURN_IF_ERROR(read_grpc(options));
  options.socket_path = socket_;
  if (!options.tcp && socket_.empty()) options.socket_path = default_socket;
  ASSIGN_OR_RETURN(options.socket_mode, read_mode(socket_mode_));
  if (!socket_group_.empty()) {
    ASSIGN_OR_RETURN(options.socket_group, read_group(socket_group_));
  }
  return {};
}

Result<void> ListenFlags::read_tls(ListenOptions& options) const {
  const tls::CredentialFiles& server = tls_.server;
  if (server.certificate.empty() != server.key.empty()) {
    return invalid("--tls-certificate and --tls-key go together");
  }
  if (!server.authorities.empty() && server.certificate.empty()) {
    return invalid("--tls-client-ca needs --tls-certificate and --tls-key");
  }
  if (client_required_ && server.authorities.empty()) {
    return invalid("--tls-client-required needs --tls-client-ca, which says whose certificates");
  }
  if (!server.certificate.empty() && !options.tcp) {
    return invalid("--tls-certificate is for TCP, and --listen none leaves none");
  }
  options.tls = tls_;
  if (!server.authorities.empty()) {
    options.tls.clients =
        client_required_ ? tls::ClientCertificates::kRequired : tls::ClientCertificates::kAsked;
  }
  if (tls_.peer_authorities.empty()) options.tls.peer_authorities = server.authorities;
  return {};
}

Result<void> ListenFlags::read_grpc(ListenOptions& options) const {
  if (grpc_.empty()) {
    if (grpc_worker_.empty() && grpc_worker_authorities_.empty()) return {};
    return invalid("--grpc-worker and --grpc-worker-ca are for --grpc");
  }
  const auto address = http::parse_authority(grpc_);
  if (!address || grpc_.find(':') == std::string::npos) {
    return invalid("--grpc is HOST:PORT, not '" + grpc_ + "'");
  }
  if (!options.tcp && grpc_worker_.empty()) {
    return invalid("--grpc asks this worker over TCP, and --listen none leaves none");
  }
  if (client_required_) {
    return invalid(
        "--grpc has no certificate of its own to show, and --tls-client-required wants one of all");
  }
  options.grpc = grpc_;
  options.grpc_worker = grpc_worker_;
  options.grpc_worker_authorities = grpc_worker_authorities_;
  return {};
}

frontend::HostPolicy host_policy(const ListenOptions& options) {
  return {
      .listener = options.tcp, .names = options.names, .function_domain = options.function_domain};
}

Result<std::string> listen_all(const ListenOptions& options, tls::NodeIdentity* identity,
                               http::Server& server, ListeningSockets& sockets, LogSink& log) {
  std::string endpoint = "unix:" + options.socket_path;
  if (options.tcp) {
    http::Authority address = *options.tcp;
    ASSIGN_OR_RETURN(OwnedFd tcp, or_elsewhere(sockets.tcp(address), "--listen"));
    address.port = http::port_of(tcp);
    const bool encrypted = identity != nullptr && identity->has_server();
    endpoint = (encrypted ? "https://" : "http://") + http::to_string(address);
    RETURN_IF_ERROR(encrypted ? server.listen_encrypted(std::move(tcp), identity->acceptor())
                              : server.listen(std::move(tcp)));
    if (!http::is_loopback(address) && !may_open_to_network(options)) {
      log.warning("open_to_network",
                  {{"endpoint", endpoint},
                   {"what", "everyone who reaches this address can deploy and run code here"}});
    }
  }
  if (!options.socket_path.empty()) {
    const auto open = [&options] {
      return http::listen_unix(options.socket_path, options.socket_mode, options.socket_group);
    };
    ASSIGN_OR_RETURN(OwnedFd unix_socket,
                     or_elsewhere(sockets.unix_socket(options.socket_path, open), "--socket"));
    RETURN_IF_ERROR(server.listen(std::move(unix_socket)));
  }
  log.info("listening", {{"endpoint", endpoint}, {"socket", options.socket_path}});
  return endpoint;
}

}  // namespace lambent
