// tls_bench: what encryption costs a request, a large answer and a new connection: our server and
// our client over loopback, plain and with TLS in turns. Prints one line of JSON.
//
// usage: tls_bench [--quick]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/json.h"
#include "core/http/client.h"
#include "core/http/server.h"
#include "core/tls/context.h"
#include "core/tls/testing/authority.h"

using namespace lambent;

namespace {

[[noreturn]] void fail(const std::string& why) {
  fprintf(stderr, "tls_bench: %s\n", why.c_str());
  exit(1);
}

template <typename T>
T or_fail(Result<T> result) {
  if (!result.ok()) fail(to_string(result.error()));
  return std::move(*result);
}

void answer(http::Request request, http::Responder responder) {
  http::Response response;
  if (request.target.size() > 1) {
    response.body.assign(strtoull(request.target.c_str() + 1, nullptr, 10), 'x');
  } else {
    response.body = std::move(request.body);
  }
  responder.send(std::move(response));
}

// Both listeners of one server, on a thread of its own.
class Servers {
 public:
  explicit Servers(const tls::ServerContext& context) : server_(loop_, {}, answer) {
    OwnedFd plain = or_fail(http::listen_tcp("127.0.0.1", 0));
    OwnedFd encrypted = or_fail(http::listen_tcp("127.0.0.1", 0));
    plain_port = http::port_of(plain);
    encrypted_port = http::port_of(encrypted);
    if (!server_.listen(std::move(plain)).ok() ||
        !server_
             .listen_encrypted(
                 std::move(encrypted),
                 [this, context](OwnedFd fd) { return context.encrypt(std::move(fd), counts_); })
             .ok()) {
      fail("the server does not listen");
    }
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~Servers() {
    loop_.stop();
    thread_.join();
  }

  uint16_t plain_port = 0;
  uint16_t encrypted_port = 0;

 private:
  const SystemClock clock_;
  loop::EventLoop loop_{clock_};
  tls::HandshakeCounts counts_;
  http::Server server_;
  std::thread thread_;
};

struct Work {
  const char* name;
  http::Request request;
  bool connects_again;
  int requests;  // of one turn
};

// Microseconds for each request of one turn: the median.
double turn_of(const http::Endpoint& endpoint, const Work& work) {
  const SystemClock clock;
  auto client = std::make_unique<http::BlockingClient>(endpoint);
  std::vector<double> taken;
  for (int i = -10; i < work.requests; ++i) {
    if (work.connects_again) client = std::make_unique<http::BlockingClient>(endpoint);
    const Instant begin = clock.now();
    const auto response = client->send(work.request, seconds(10));
    if (!response.ok()) fail(to_string(response.error()));
    if (i >= 0) taken.push_back(to_seconds(clock.now() - begin) * 1e6);
  }
  std::nth_element(taken.begin(), taken.begin() + static_cast<ptrdiff_t>(taken.size() / 2),
                   taken.end());
  return taken[taken.size() / 2];
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  const int turns = quick ? 3 : 15;
  tls::Authority authority("bench");
  const auto server_context = or_fail(tls::ServerContext::make(
      tls::credentials_of(authority.issue()), tls::ClientCertificates::kNotAsked));
  const auto client_context =
      or_fail(tls::ClientContext::make(tls::credentials_of({}, authority.certificate())));
  const Servers servers(server_context);
  const http::Endpoint plain = {.host = "127.0.0.1", .port = servers.plain_port};
  const http::Endpoint encrypted = {.host = "127.0.0.1",
                                    .port = servers.encrypted_port,
                                    .encrypted = true,
                                    .encrypt = client_context.connector()};
  const Work works[] = {
      {"request", {.method = "POST", .target = "/", .body = "{}"}, false, quick ? 200 : 2000},
      {"answer_of_1_mib", {.method = "GET", .target = "/1048576"}, false, quick ? 20 : 100},
      {"new_connection", {.method = "POST", .target = "/", .body = "{}"}, true, quick ? 50 : 300}};
  bench::Joined line;
  for (const Work& work : works) {
    std::vector<double> plain_us;
    std::vector<double> encrypted_us;
    std::vector<double> ratios;
    for (int turn = 0; turn < turns; ++turn) {
      plain_us.push_back(turn_of(plain, work));
      encrypted_us.push_back(turn_of(encrypted, work));
      ratios.push_back(encrypted_us.back() / plain_us.back());
    }
    printf("%-16s plain %8.1f us, TLS %8.1f us, ratio %.2f\n", work.name, median_of(plain_us),
           median_of(encrypted_us), median_of(ratios));
    line.add(std::string(work.name) + "_plain_us", median_of(plain_us));
    line.add(std::string(work.name) + "_tls_us", median_of(encrypted_us));
    line.add(std::string(work.name) + "_ratio", median_of(ratios));
  }
  printf("%s\n", line.object().c_str());
  return 0;
}
