// http_echo: our Server with a handler that answers at once, to be held beside bare_echo.
// usage: http_echo tcp | unix:PATH | function; prints where it listens, ends when its input is
// closed. `function`: listens at PORT, as an HTTP function does, until it is ended.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/http/server.h"

using namespace lambent;

int main(int argc, char** argv) {
  const std::string where = argc > 1 ? argv[1] : "";
  const bool is_function = where == "function";
  const char* given_port = getenv("PORT");
  const int fixed_port = is_function && given_port != nullptr ? atoi(given_port) : 0;
  Result<OwnedFd> listener = where.starts_with("unix:")
                                 ? http::listen_unix(where.substr(5), 0600)
                                 : http::listen_tcp("127.0.0.1", static_cast<uint16_t>(fixed_port));
  if (!listener.ok()) {
    fprintf(stderr, "http_echo: %s\n", to_string(listener.error()).c_str());
    return 1;
  }
  const uint16_t port = http::port_of(*listener);
  const SystemClock clock;
  loop::EventLoop loop(clock);
  http::Server server(loop, {}, [](http::Request request, http::Responder responder) {
    http::Response response;
    response.headers.add("Content-Type", "application/json");
    response.body = std::move(request.body);
    responder.send(std::move(response));
  });
  if (!server.listen(std::move(*listener)).ok()) return 1;
  printf("%s\n", port == 0 ? where.c_str() : ("http://127.0.0.1:" + std::to_string(port)).c_str());
  fflush(stdout);
  const loop::Watch input = is_function ? loop::Watch()
                                        : loop.watch(STDIN_FILENO, true, false,
                                                     [&loop](loop::Readiness) { loop.stop(); });
  loop.run();
  if (port == 0) unlink(where.c_str() + 5);
  return 0;
}
