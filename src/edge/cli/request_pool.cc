#include "edge/cli/request_pool.h"

#include <arpa/inet.h>
#include <http_parser.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <list>

#include "core/http/limits.h"

namespace lambent::cli {
namespace {

// Shorter than the server's idle time-out, so that we never send on a connection it is closing.
constexpr Duration kKeepIdle = limits::kHttpIdleTimeout / 2;
constexpr size_t kMostResponse = size_t{16} << 20;

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

Result<Address> address_of(const http::Endpoint& endpoint) {
  Address address;
  if (!endpoint.socket_path.empty()) {
    sockaddr_un unix_address{.sun_family = AF_UNIX};
    if (endpoint.socket_path.size() >= sizeof(unix_address.sun_path)) {
      return Error{ErrorCode::kInvalidArgument, "the socket's path is too long"};
    }
    std::strcpy(unix_address.sun_path, endpoint.socket_path.c_str());
    std::memcpy(&address.storage, &unix_address, sizeof(unix_address));
    address.length = sizeof(unix_address);
    return address;
  }
  sockaddr_in inet{.sin_family = AF_INET, .sin_port = htons(endpoint.port)};
  const std::string host = endpoint.host == "localhost" ? "127.0.0.1" : endpoint.host;
  if (inet_pton(AF_INET, host.c_str(), &inet.sin_addr) != 1) {
    return Error{ErrorCode::kInvalidArgument,
                 "many requests at once need the worker's numeric IPv4 address or socket, not '" +
                     endpoint.host + "'"};
  }
  std::memcpy(&address.storage, &inet, sizeof(inet));
  address.length = sizeof(inet);
  return address;
}

Result<OwnedFd> start_connecting(const http::Endpoint& endpoint) {
  ASSIGN_OR_RETURN(const Address address, address_of(endpoint));
  OwnedFd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return error_from_errno("make a socket", errno);
  if (address.storage.ss_family == AF_INET) {
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  const auto* generic = reinterpret_cast<const sockaddr*>(&address.storage);
  if (connect(fd.get(), generic, address.length) != 0 && errno != EINPROGRESS) {
    Error error = error_from_errno("connect to " + http::to_string(endpoint), errno);
    error.code = ErrorCode::kUnavailable;
    return error;
  }
  return fd;
}

std::string bytes_of(const http::Request& request, const Destination& destination) {
  const std::string& host = destination.endpoint.host;
  std::string bytes = request.method + " " + request.target +
                      " HTTP/1.1\r\nHost: " + (host.empty() ? "localhost" : host) + "\r\n";
  const http::Headers headers = headers_of(request, destination.credentials);
  for (const auto& [name, value] : headers.fields()) {
    bytes += name + ": " + value + "\r\n";
  }
  return bytes + "Content-Length: " + std::to_string(request.body.size()) + "\r\n\r\n" +
         request.body;
}

// Takes one response apart.
struct ResponseReader {
  http_parser parser{};
  http::Response response;
  std::string field;
  std::string value;
  bool complete = false;

  void start() {
    http_parser_init(&parser, HTTP_RESPONSE);
    parser.data = this;
    response = {};
    complete = false;
  }
  // False if these bytes are not a response.
  bool take(const char* data, size_t size);

 private:
  static ResponseReader& self(http_parser* parser) {
    return *static_cast<ResponseReader*>(parser->data);
  }
  void finish_field() {
    if (!field.empty()) response.headers.add(std::move(field), std::move(value));
    field.clear();
    value.clear();
  }
};

bool ResponseReader::take(const char* data, size_t size) {
  static const http_parser_settings settings = [] {
    http_parser_settings s;
    http_parser_settings_init(&s);
    s.on_header_field = [](http_parser* p, const char* at, size_t n) {
      if (!self(p).value.empty()) self(p).finish_field();
      self(p).field.append(at, n);
      return 0;
    };
    s.on_header_value = [](http_parser* p, const char* at, size_t n) {
      self(p).value.append(at, n);
      return 0;
    };
    s.on_headers_complete = [](http_parser* p) {
      self(p).finish_field();
      self(p).response.status = static_cast<int>(p->status_code);
      return 0;
    };
    s.on_body = [](http_parser* p, const char* at, size_t n) {
      self(p).response.body.append(at, n);
      return self(p).response.body.size() > kMostResponse ? 1 : 0;
    };
    s.on_message_complete = [](http_parser* p) {
      self(p).complete = true;
      http_parser_pause(p, 1);  // what follows belongs to no request of ours
      return 0;
    };
    return s;
  }();
  const size_t used = http_parser_execute(&parser, &settings, data, size);
  return complete || (HTTP_PARSER_ERRNO(&parser) == HPE_OK && used == size);
}

struct Connection {
  std::unique_ptr<http::Stream> stream;  // null until it is opened
  loop::Watch watch;
  loop::TimerId deadline;
  std::string unsent;
  size_t sent = 0;
  bool sends_when_readable = false;  // a handshake has to read first
  ResponseReader reader;
  RequestPool::Done done;  // empty while idle
  Instant idle_since{};
};

}  // namespace

struct RequestPool::State {
  using Place = std::list<Connection>::iterator;

  loop::EventLoop& loop;
  Destination destination;
  size_t most;
  std::list<Connection> connections;
  std::vector<Place> idle;
  size_t outstanding = 0;

  Place take_connection();
  void open(Place place);
  void on_ready(Place place, loop::Readiness ready);
  void write_more(Place place);
  void read_more(Place place);
  // What a transfer that moved nothing waits for, or came to.
  void wait_for(Place place, http::Transfer::Kind kind);
  void finish(Place place, Result<http::Response> result, bool keep);
  void drop(Place place);
};

RequestPool::RequestPool(loop::EventLoop& loop, Destination destination, size_t most_outstanding)
    : state_(new State{.loop = loop,
                       .destination = std::move(destination),
                       .most = most_outstanding,
                       .connections = {},
                       .idle = {}}) {}

RequestPool::~RequestPool() {
  for (Connection& connection : state_->connections) state_->loop.cancel(connection.deadline);
}

size_t RequestPool::outstanding() const { return state_->outstanding; }
size_t RequestPool::connections() const { return state_->connections.size(); }

bool RequestPool::send(const http::Request& request, Duration timeout, Done done) {
  State& state = *state_;
  if (state.outstanding == state.most) return false;
  ++state.outstanding;
  const State::Place place = state.take_connection();
  place->done = std::move(done);
  place->unsent = bytes_of(request, state.destination);
  place->sent = 0;
  place->reader.start();
  place->deadline = state.loop.call_after(timeout, [&state, place] {
    state.finish(place, Error{ErrorCode::kDeadlineExceeded, "no answer in time"}, false);
  });
  if (place->stream == nullptr) {
    // From a turn of its own, so that `done` is never called before send() returned.
    state.loop.cancel(place->deadline);
    place->deadline = state.loop.call_after(Duration::zero(), [&state, place, timeout] {
      place->deadline = state.loop.call_after(timeout, [&state, place] {
        state.finish(place, Error{ErrorCode::kDeadlineExceeded, "no answer in time"}, false);
      });
      state.open(place);
    });
    return true;
  }
  place->watch.update(true, true);
  return true;
}

RequestPool::State::Place RequestPool::State::take_connection() {
  while (!idle.empty()) {
    const Place place = idle.back();
    idle.pop_back();
    if (loop.now() - place->idle_since < kKeepIdle) return place;
    drop(place);
  }
  return connections.emplace(connections.end());
}

void RequestPool::State::open(Place place) {
  const http::Endpoint& endpoint = destination.endpoint;
  auto fd = start_connecting(endpoint);
  if (!fd.ok()) return finish(place, fd.error(), false);
  if (endpoint.encrypted) {
    auto stream = endpoint.encrypt
                      ? endpoint.encrypt(std::move(*fd), endpoint.host)
                      : Error{ErrorCode::kFailedPrecondition, "this program does not speak TLS"};
    if (!stream.ok()) return finish(place, stream.error(), false);
    place->stream = std::move(*stream);
  } else {
    place->stream = http::plain_stream(std::move(*fd));
  }
  place->watch = loop.watch(place->stream->fd(), true, true,
                            [this, place](loop::Readiness ready) { on_ready(place, ready); });
}

void RequestPool::State::on_ready(Place place, loop::Readiness ready) {
  if (!place->done) {
    // Idle: anything but silence means that the server is closing it.
    std::erase(idle, place);
    drop(place);
    return;
  }
  const bool has_unsent = place->sent < place->unsent.size();
  if (has_unsent && (ready.writable || place->sends_when_readable)) {
    write_more(place);
  } else if (ready.readable || ready.hung_up) {
    read_more(place);
  }
}

void RequestPool::State::wait_for(Place place, http::Transfer::Kind kind) {
  const http::Endpoint& endpoint = destination.endpoint;
  switch (kind) {
    case http::Transfer::Kind::kWaitsToRead:
    case http::Transfer::Kind::kWaitsToWrite: {
      const bool has_unsent = place->sent < place->unsent.size();
      const bool sends = has_unsent && !place->sends_when_readable;
      return place->watch.update(true, sends || kind == http::Transfer::Kind::kWaitsToWrite);
    }
    case http::Transfer::Kind::kEnd:
      return finish(place,
                    Error{ErrorCode::kUnavailable,
                          "the connection to " + http::to_string(endpoint) + " was lost"},
                    false);
    default:
      return finish(place, place->stream->failure().with_context(http::to_string(endpoint)), false);
  }
}

void RequestPool::State::write_more(Place place) {
  while (place->sent < place->unsent.size()) {
    const iovec rest = {place->unsent.data() + place->sent, place->unsent.size() - place->sent};
    const http::Transfer wrote = place->stream->write({&rest, 1});
    place->sends_when_readable = wrote.kind == http::Transfer::Kind::kWaitsToRead;
    if (wrote.kind != http::Transfer::Kind::kMoved) return wait_for(place, wrote.kind);
    place->sent += wrote.bytes;
  }
  place->watch.update(true, false);
}

void RequestPool::State::read_more(Place place) {
  char buffer[16 * 1024];
  for (;;) {
    const http::Transfer got = place->stream->read(buffer);
    if (got.kind != http::Transfer::Kind::kMoved) return wait_for(place, got.kind);
    if (!place->reader.take(buffer, got.bytes)) {
      return finish(place, Error{ErrorCode::kInternal, "the answer is not HTTP"}, false);
    }
    if (place->reader.complete) {
      const bool keep = http_should_keep_alive(&place->reader.parser) != 0;
      return finish(place, std::move(place->reader.response), keep);
    }
  }
}

void RequestPool::State::finish(Place place, Result<http::Response> result, bool keep) {
  loop.cancel(place->deadline);
  const Done done = std::move(place->done);
  place->done = nullptr;
  --outstanding;
  if (keep) {
    place->idle_since = loop.now();
    place->watch.update(true, false);
    idle.push_back(place);
  } else {
    drop(place);
  }
  done(std::move(result));
}

void RequestPool::State::drop(Place place) {
  // The watch may be the one whose callback runs: the loop allows for that.
  connections.erase(place);
}

}  // namespace lambent::cli
