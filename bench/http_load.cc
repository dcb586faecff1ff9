// http_load: a closed-loop load generator: N keep-alive connections, each with one POST under way.
// Prints one line of JSON. One thread; speaks to any URL, over TCP or a Unix socket.
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/fd.h"
#include "core/base/time.h"
#include "core/http/client.h"
#include "core/http/response_parser.h"

using namespace lambent;

namespace {

struct Options {
  std::string url;
  std::string path = "/";
  std::string body = "{}";
  std::string headers;
  size_t connections = 1;
  uint64_t count = 0;  // 0: for `seconds`
  double seconds = 2;
  double warm_up = 0.2;
};

struct Connection {
  OwnedFd fd;
  std::unique_ptr<http::ResponseParser> parser;
  Instant sent;
};

[[noreturn]] void fail(const std::string& why) {
  fprintf(stderr, "http_load: %s\n", why.c_str());
  exit(1);
}

Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i++) {
    const std::string name = argv[i];
    if (!name.starts_with("--")) {
      options.url = name;
      continue;
    }
    if (i + 1 >= argc) fail(name + " needs a value");
    const std::string value = argv[++i];
    if (name == "--connections") {
      options.connections = strtoull(value.c_str(), nullptr, 10);
    } else if (name == "--count") {
      options.count = strtoull(value.c_str(), nullptr, 10);
    } else if (name == "--seconds") {
      options.seconds = strtod(value.c_str(), nullptr);
    } else if (name == "--warm-up") {
      options.warm_up = strtod(value.c_str(), nullptr);
    } else if (name == "--body") {
      options.body = value;
    } else if (name == "--body-file") {
      const auto read = read_file(value, size_t{1} << 30);
      if (!read.ok()) fail(to_string(read.error()));
      options.body = *read;
    } else if (name == "--body-size") {
      options.body = std::string(strtoull(value.c_str(), nullptr, 10), 'x');
    } else if (name == "--path") {
      options.path = value;
    } else if (name == "--header") {
      options.headers += value + "\r\n";
    } else {
      fail("no such option: " + name);
    }
  }
  if (options.url.empty() || options.connections == 0) {
    fail(
        "usage: http_load [--connections N] [--count N | --seconds S] [--warm-up S] [--body TEXT |"
        " --body-file FILE | --body-size N] [--path /P] [--header 'A: b'] http://HOST:PORT[/P] | "
        "unix:PATH");
  }
  if (options.url.starts_with("http://")) {
    const size_t slash = options.url.find('/', 7);
    if (slash != std::string::npos) {
      options.path = options.url.substr(slash);
      options.url.resize(slash);
    }
  }
  return options;
}

OwnedFd connect_to(const http::Endpoint& endpoint) {
  if (!endpoint.socket_path.empty()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    endpoint.socket_path.copy(address.sun_path, sizeof address.sun_path - 1);
    OwnedFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      fail("connect to " + to_string(endpoint) + ": " + strerror(errno));
    }
    return fd;
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(endpoint.port);
  if (getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &found) != 0) {
    fail("no such host: " + endpoint.host);
  }
  OwnedFd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0) {
    fail("connect to " + to_string(endpoint) + ": " + strerror(errno));
  }
  freeaddrinfo(found);
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

void open(Connection& connection, uint64_t number, const http::Endpoint& endpoint,
          const OwnedFd& epoll) {
  connection.fd = connect_to(endpoint);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = number;
  epoll_ctl(epoll.get(), EPOLL_CTL_ADD, connection.fd.get(), &event);
}

// Sends the request, waiting if the socket is full: requests are small beside its buffer.
void send_request(Connection& connection, const std::string& request, const Clock& clock) {
  connection.parser = std::make_unique<http::ResponseParser>(false);
  connection.sent = clock.now();
  if (!write_all(connection.fd.get(), request).ok()) fail("the server closed a connection");
}

double at_quantile(const std::vector<uint64_t>& sorted, double quantile) {
  if (sorted.empty()) return 0;
  const auto index = static_cast<size_t>(quantile * static_cast<double>(sorted.size() - 1));
  return static_cast<double>(sorted[index]) * 1e-3;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  const auto endpoint = http::parse_endpoint(options.url);
  if (!endpoint.ok()) fail(to_string(endpoint.error()));
  const std::string request = "POST " + options.path + " HTTP/1.1\r\nHost: localhost\r\n" +
                              "Content-Type: application/json\r\n" + options.headers +
                              "Content-Length: " + std::to_string(options.body.size()) +
                              "\r\n\r\n" + options.body;
  const SystemClock clock;
  const OwnedFd epoll(epoll_create1(EPOLL_CLOEXEC));
  std::vector<Connection> connections(options.connections);
  for (size_t i = 0; i < connections.size(); i++) {
    open(connections[i], i, *endpoint, epoll);
  }
  const Instant start = clock.now();
  const Instant measured_from = start + from_seconds(options.warm_up);
  const Instant until = options.count > 0 ? kNever : measured_from + from_seconds(options.seconds);
  std::vector<uint64_t> latencies;
  latencies.reserve(1 << 20);
  uint64_t errors = 0;
  bool told_of_error = false;
  std::vector<char> buffer(64 * 1024);
  for (Connection& connection : connections) send_request(connection, request, clock);

  bool done = false;
  Instant now = start;
  epoll_event events[256];
  while (!done) {
    const int ready = epoll_wait(epoll.get(), events, 256, 10'000);
    if (ready == 0) fail("no answer for 10 s");
    for (int i = 0; i < ready && !done; i++) {
      Connection& connection = connections[events[i].data.u64];
      const ssize_t got = recv(connection.fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got < 0 && errno == EAGAIN) continue;
      if (got <= 0) fail("the server closed a connection");
      std::string_view data(buffer.data(), static_cast<size_t>(got));
      const auto whole = connection.parser->feed(data);
      if (!whole.ok()) fail(to_string(whole.error()));
      if (!*whole) continue;
      now = clock.now();
      if (now >= measured_from) {
        latencies.push_back(static_cast<uint64_t>((now - connection.sent).count()));
        if (connection.parser->response().status / 100 != 2) errors++;
      }
      if (connection.parser->response().status / 100 != 2 && !std::exchange(told_of_error, true)) {
        fprintf(stderr, "http_load: the first error is HTTP %d: %s\n",
                connection.parser->response().status, connection.parser->response().body.c_str());
      }
      // Told so, a client opens the next one; closed without a word, the run fails above.
      if (!connection.parser->keep_alive()) open(connection, events[i].data.u64, *endpoint, epoll);
      done = now >= until || (options.count > 0 && latencies.size() >= options.count);
      if (!done) send_request(connection, request, clock);
    }
  }
  const double elapsed = to_seconds(now - measured_from);
  std::sort(latencies.begin(), latencies.end());
  uint64_t sum = 0;
  for (const uint64_t latency : latencies) sum += latency;
  const double mean =
      latencies.empty() ? 0 : static_cast<double>(sum) / static_cast<double>(latencies.size());
  printf(
      "{\"connections\":%zu,\"requests\":%zu,\"errors\":%llu,\"seconds\":%.3f,\"rps\":%.0f,"
      "\"mean_us\":%.1f,\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f}\n",
      connections.size(), latencies.size(), static_cast<unsigned long long>(errors), elapsed,
      static_cast<double>(latencies.size()) / elapsed, mean * 1e-3, at_quantile(latencies, 0.5),
      at_quantile(latencies, 0.9), at_quantile(latencies, 0.99), at_quantile(latencies, 1));
  return errors == 0 ? 0 : 3;
}
