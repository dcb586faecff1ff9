// lambent-grpc: the Open Inference Protocol by gRPC, in front of a worker on this machine or
// another. A process of its own, so that the worker is not linked against gRPC and does not die of
// it.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <iostream>
#include <string>
#include <thread>

#include "core/base/fd.h"
#include "core/http/authority.h"
#include "core/tls/context.h"
#include "core/tls/credentials.h"
#include "edge/grpc_inference/inference_service.h"

namespace {

using namespace lambent;

constexpr size_t kMostPem = 1 << 20;
constexpr int kMostMessageMib = 2047;  // gRPC counts a message's bytes in 31 bits
constexpr int kMemoryOfMessages = 4;   // times the largest, of all calls together

struct Options {
  std::string listen = "127.0.0.1:8981";
  std::string worker = "http://127.0.0.1:8980";
  // No certificate of its own: the worker would take every caller for whom that names.
  tls::CredentialFiles to_worker;
  std::string certificate, key, authorities;
  bool open_to_network = false;
  bool until_input_ends = false;
  int message_mib = 64;
  int calls = 128;
};

Error wrong(const std::string& message) { return {ErrorCode::kInvalidArgument, message}; }

Result<http::Endpoint> worker_of(const Options& options) {
  ASSIGN_OR_RETURN(http::Endpoint endpoint, http::parse_endpoint(options.worker));
  if (!endpoint.socket_path.empty()) {
    // The worker trusts who connects there: every caller would be the operator.
    return wrong(
        "--worker is http://HOST:PORT or https://HOST:PORT; over its Unix socket every "
        "caller would act as the operator");
  }
  if (!endpoint.encrypted) return endpoint;
  ASSIGN_OR_RETURN(const tls::Credentials credentials, tls::read_credentials(options.to_worker));
  ASSIGN_OR_RETURN(const tls::ClientContext context, tls::ClientContext::make(credentials));
  endpoint.encrypt = context.connector();
  return endpoint;
}

bool is_loopback(const std::string& listen) {
  const auto authority = http::parse_authority(listen);
  if (!authority) return false;
  const bool is_ipv4 = authority->kind == http::Authority::Kind::kIpv4;
  return (is_ipv4 && authority->host.starts_with("127.")) || authority->host == "::1" ||
         authority->host == "localhost";
}

// Beyond loopback what is sent must be encrypted, and not everyone may ask: the worker wants
// tokens.
Result<void> check_openness(const Options& options, grpc_inference::WorkerClient& worker) {
  if (is_loopback(options.listen) || options.open_to_network) return {};
  if (options.certificate.empty()) {
    return wrong("--listen " + options.listen +
                 " is open to the network: give --tls-certificate and --tls-key, or say "
                 "--insecure-open-to-network");
  }
  ASSIGN_OR_RETURN(const http::Response answer,
                   worker.send({.method = "GET", .target = "/v1/whoami"}, seconds(10)));
  if (answer.status == 401) return {};
  return wrong("--listen " + options.listen +
               " is open to the network, and the worker takes requests without a token: start it "
               "with --auth tokens, or say --insecure-open-to-network");
}

Result<std::shared_ptr<grpc::ServerCredentials>> credentials_of(const Options& options) {
  if (options.certificate.empty() != options.key.empty()) {
    return wrong("--tls-certificate and --tls-key go together");
  }
  if (options.certificate.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions ssl(
      options.authorities.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                  : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  ASSIGN_OR_RETURN(const std::string certificate, read_file(options.certificate, kMostPem));
  ASSIGN_OR_RETURN(const std::string key, read_file(options.key, kMostPem));
  if (!options.authorities.empty()) {
    ASSIGN_OR_RETURN(ssl.pem_root_certs, read_file(options.authorities, kMostPem));
  }
  ssl.pem_key_cert_pairs.push_back({key, certificate});
  return grpc::SslServerCredentials(ssl);
}

Result<void> serve(const Options& options, const sigset_t& ends) {
  ASSIGN_OR_RETURN(const http::Endpoint endpoint, worker_of(options));
  grpc_inference::WorkerClient worker(endpoint);
  RETURN_IF_ERROR(check_openness(options, worker));
  ASSIGN_OR_RETURN(const auto credentials, credentials_of(options));
  grpc_inference::InferenceService service(worker);
  const int message = options.message_mib * (1 << 20);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ResourceQuota quota;
  quota.SetMaxThreads(options.calls);
  quota.Resize(static_cast<size_t>(message) * kMemoryOfMessages);
  grpc::ServerBuilder builder;
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(message);
  builder.SetMaxSendMessageSize(message);
  // Two servers on one port would share its connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.RegisterService(&service);
  int port = 0;
  builder.AddListeningPort(options.listen, credentials, &port);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return Error{ErrorCode::kUnavailable, "cannot listen on " + options.listen +
                                              ": it is taken, no address of this machine, or the "
                                              "certificate does not fit its key"};
  }
  const std::string host = options.listen.substr(0, options.listen.rfind(':'));
  std::cout << "lambent-grpc: listening on " << host << ":" << port << std::endl;
  int signal = 0;
  sigwait(&ends, &signal);
  // Calls that are there have as long as programs get between SIGTERM and SIGKILL.
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
  return {};
}

// The process that started this holds the other end, which closes however that one ends.
void end_with_input() {
  std::thread([] {
    char ignored[256];
    ssize_t got = 0;
    do {
      got = read(STDIN_FILENO, ignored, sizeof ignored);
    } while (got > 0 || (got < 0 && errno == EINTR));
    kill(getpid(), SIGTERM);
  }).detach();
}

void add_flags(CLI::App& app, Options& options) {
  app.add_option("--listen", options.listen, "HOST:PORT; port 0 takes a free one")
      ->capture_default_str();
  app.add_option("--worker", options.worker, "Whom it asks: http://HOST:PORT or https://HOST:PORT")
      ->envname("LAMBENT_ENDPOINT")
      ->capture_default_str();
  app.add_option("--worker-ca", options.to_worker.authorities,
                 "https: the authorities that sign the worker's certificate, a PEM file (default: "
                 "those of this machine)");
  app.add_option("--tls-certificate", options.certificate,
                 "Serves TLS with this certificate, a PEM file");
  app.add_option("--tls-key", options.key, "Its private key");
  app.add_option("--tls-client-ca", options.authorities,
                 "Clients show a certificate that one of these authorities signed, a PEM file");
  app.add_flag("--insecure-open-to-network", options.open_to_network,
               "Listens beyond loopback without TLS, or before a worker without tokens");
  app.add_flag("--until-input-ends", options.until_input_ends,
               "Ends when its standard input does, for a program that starts it");
  app.add_option("--max-message-mib", options.message_mib,
                 "The largest message; a larger one is RESOURCE_EXHAUSTED")
      ->capture_default_str()
      ->check(CLI::Range(1, kMostMessageMib));
  app.add_option("--max-calls", options.calls, "Calls at once; more are RESOURCE_EXHAUSTED")
      ->capture_default_str()
      ->check(CLI::Range(4, 4096));
}

}  // namespace

int main(int count, char** words) {
  CLI::App app("Serves the Open Inference Protocol (v2) by gRPC, in front of a worker.");
  Options options;
  add_flags(app, options);
  CLI11_PARSE(app, count, words);
  signal(SIGPIPE, SIG_IGN);
  // Before there are threads, so that all leave them to sigwait().
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  if (options.until_input_ends) end_with_input();
  const auto served = serve(options, ends);
  if (served.ok()) return 0;
  std::cerr << "lambent-grpc: " << served.error().message << std::endl;
  return exit_code_of(served.error().code);
}
