#include "core/http/client.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "core/http/response_parser.h"

namespace lambent::http {
namespace {

constexpr size_t kReadSize = 64 * 1024;

std::string encode_request(const Request& request, const Endpoint& endpoint) {
  std::string out = request.method + " " + request.target + " HTTP/1.1\r\n";
  if (!request.headers.contains("Host")) {
    out += "Host: ";
    out += endpoint.socket_path.empty() ? endpoint.host + ":" + std::to_string(endpoint.port)
                                        : "localhost";
    out += "\r\n";
  }
  for (const auto& [name, value] : request.headers.fields()) out += name + ": " + value + "\r\n";
  const bool has_body = !request.body.empty() || request.method == "POST" ||
                        request.method == "PUT" || request.method == "PATCH";
  if (has_body && !request.headers.contains("Content-Length")) {
    out += "Content-Length: " + std::to_string(request.body.size()) + "\r\n";
  }
  out += "\r\n";
  return out;
}

Error unavailable(const Endpoint& endpoint, std::string_view why) {
  return {ErrorCode::kUnavailable,
          "connect to " + to_string(endpoint) + ": " + std::string(why) + "; is a worker running?"};
}

}  // namespace

struct BlockingClient::State {
  explicit State(Endpoint its_endpoint) : endpoint(std::move(its_endpoint)) {}

  Result<void> connect();
  Result<void> connect_to(const sockaddr* address, socklen_t length);
  Result<void> wait_on(int socket, short events);
  // Until a transfer that waits can go on; else why it cannot.
  Result<void> wait_for(Transfer::Kind kind);
  Error lost() const;
  Result<void> write_request(const Request& request);
  Result<void> write(std::string_view first, std::string_view second);
  Result<void> write_body(const BodySource& source, uint64_t size, Duration timeout);
  Result<Response> exchange(const Request& request,
                            const std::function<bool(std::string_view)>* sink, bool& nothing_read);
  // Of a request that was written, or not wholly.
  Result<Response> read_response(const Request& request, const Result<void>& written,
                                 const std::function<bool(std::string_view)>* sink,
                                 bool& nothing_read);
  Result<Response> send(const Request& request, Duration timeout,
                        const std::function<bool(std::string_view)>* sink);

  const Endpoint endpoint;
  const SystemClock clock;
  std::unique_ptr<Stream> stream;
  Instant deadline = kNever;
  std::string buffer;
};

Result<void> BlockingClient::State::wait_on(int socket, short events) {
  for (;;) {
    const Duration left = deadline - clock.now();
    if (left <= Duration::zero()) {
      return Error{ErrorCode::kDeadlineExceeded,
                   "no answer from " + to_string(endpoint) + " in time"};
    }
    pollfd entry{socket, events, 0};
    const auto milliseconds_left = std::min<int64_t>(left.count() / 1'000'000 + 1, 3'600'000);
    const int ready = poll(&entry, 1, static_cast<int>(milliseconds_left));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return error_from_errno("wait for an answer", errno);
  }
}

Result<void> BlockingClient::State::wait_for(Transfer::Kind kind) {
  if (kind == Transfer::Kind::kWaitsToRead) return wait_on(stream->fd(), POLLIN);
  if (kind == Transfer::Kind::kWaitsToWrite) return wait_on(stream->fd(), POLLOUT);
  return lost();
}

Error BlockingClient::State::lost() const {
  Error error = stream->failure();
  error.message = to_string(endpoint) + ": " + error.message;
  return error;
}

Result<void> BlockingClient::State::connect_to(const sockaddr* address, socklen_t length) {
  OwnedFd fd(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return error_from_errno("make a socket", errno);
  if (::connect(fd.get(), address, length) != 0) {
    if (errno != EINPROGRESS) return unavailable(endpoint, strerror(errno));
    RETURN_IF_ERROR(wait_on(fd.get(), POLLOUT));
    int problem = 0;
    socklen_t size = sizeof problem;
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &problem, &size);
    if (problem != 0) return unavailable(endpoint, strerror(problem));
  }
  if (address->sa_family != AF_UNIX) {
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  if (endpoint.encrypted) {
    ASSIGN_OR_RETURN(stream, endpoint.encrypt(std::move(fd), endpoint.host));
  } else {
    stream = plain_stream(std::move(fd));
  }
  return {};
}

Result<void> BlockingClient::State::connect() {
  if (endpoint.encrypted && !endpoint.encrypt) {
    return Error{ErrorCode::kFailedPrecondition,
                 "connect to " + to_string(endpoint) + ": this program does not speak TLS"};
  }
  if (!endpoint.socket_path.empty()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (endpoint.socket_path.size() >= sizeof address.sun_path) {
      return Error{ErrorCode::kInvalidArgument, "the path of the Unix socket is too long"};
    }
    memcpy(address.sun_path, endpoint.socket_path.c_str(), endpoint.socket_path.size() + 1);
    return connect_to(reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failure =
      getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
  if (failure != 0) return unavailable(endpoint, gai_strerror(failure));
  Result<void> result = unavailable(endpoint, "no address");
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    result = connect_to(one->ai_addr, one->ai_addrlen);
    if (result.ok()) break;
  }
  freeaddrinfo(found);
  return result;
}

Result<void> BlockingClient::State::write_request(const Request& request) {
  return write(encode_request(request, endpoint), request.body);
}

Result<void> BlockingClient::State::write(std::string_view first, std::string_view second) {
  std::string_view parts[2] = {first, second};
  while (!parts[0].empty() || !parts[1].empty()) {
    iovec buffers[2];
    for (int i = 0; i < 2; i++) {
      buffers[i] = {const_cast<char*>(parts[i].data()), parts[i].size()};
    }
    const Transfer sent =
        stream->write({buffers + (parts[0].empty() ? 1 : 0), buffers + (parts[1].empty() ? 1 : 2)});
    if (sent.kind != Transfer::Kind::kMoved) {
      RETURN_IF_ERROR(wait_for(sent.kind));
      continue;
    }
    size_t left = sent.bytes;
    for (std::string_view& part : parts) {
      const size_t taken = std::min(left, part.size());
      part.remove_prefix(taken);
      left -= taken;
    }
  }
  return {};
}

Result<Response> BlockingClient::State::exchange(const Request& request,
                                                 const std::function<bool(std::string_view)>* sink,
                                                 bool& nothing_read) {
  // A server that refuses a large body answers before it has read it, so a failure to send is
  // reported only if there is no answer either.
  return read_response(request, write_request(request), sink, nothing_read);
}

// A server that has answered reads no more than it has to: then the rest is not sent.
Result<void> BlockingClient::State::write_body(const BodySource& source, uint64_t size,
                                               Duration timeout) {
  std::string piece;
  while (size > 0 && stream->peek().kind == Transfer::Kind::kWaitsToRead) {
    deadline = clock.now() + timeout;
    RETURN_IF_ERROR(source(piece));
    RETURN_IF_ERROR(write(piece, {}));
    size -= std::min<uint64_t>(size, piece.size());
  }
  deadline = clock.now() + timeout;
  if (size == 0) return {};
  return Error{ErrorCode::kUnavailable, "the server answered before it had all"};
}

Result<Response> BlockingClient::State::read_response(
    const Request& request, const Result<void>& written,
    const std::function<bool(std::string_view)>* sink, bool& nothing_read) {
  if (!written.ok() && written.error().code != ErrorCode::kUnavailable) return written.error();
  ResponseParser parser(request.method == "HEAD");
  bool whole = false;
  bool more_came = false;
  while (!whole) {
    const Transfer got = stream->read(buffer);
    if (got.kind == Transfer::Kind::kEnd) {
      if (parser.finish()) break;
      if (!written.ok()) return written.error();
      return Error{ErrorCode::kUnavailable,
                   to_string(endpoint) + " closed the connection before its answer was whole"};
    }
    if (got.kind != Transfer::Kind::kMoved) {
      const Result<void> waited = wait_for(got.kind);
      if (waited.ok()) continue;
      const bool has_reason = waited.error().code != ErrorCode::kUnavailable;
      if (!written.ok() && !has_reason) return written.error();
      return waited.error();
    }
    nothing_read = false;
    std::string_view data(buffer.data(), got.bytes);
    ASSIGN_OR_RETURN(whole, parser.feed(data));
    if (sink != nullptr && parser.head_done() && !parser.response().body.empty()) {
      const std::string piece = std::exchange(parser.response().body, {});
      if (!(*sink)(piece)) {
        stream.reset();
        return std::move(parser.response());
      }
    }
    if (whole && !data.empty()) more_came = true;  // more than was asked for
  }
  if (!written.ok() || !parser.keep_alive() || more_came) stream.reset();
  return std::move(parser.response());
}

Result<Response> BlockingClient::State::send(const Request& request, Duration timeout,
                                             const std::function<bool(std::string_view)>* sink) {
  const Instant now = clock.now();
  deadline = timeout < kNever - now ? now + timeout : kNever;
  buffer.resize(kReadSize);
  for (;;) {
    const bool reused = stream != nullptr;
    if (!reused) RETURN_IF_ERROR(connect());
    bool nothing_read = true;
    Result<Response> response = exchange(request, sink, nothing_read);
    if (response.ok()) return response;
    stream.reset();
    // The server may have closed the idle connection just now: then no handler saw the request.
    if (reused && nothing_read && response.error().code != ErrorCode::kDeadlineExceeded) continue;
    return response;
  }
}

BlockingClient::BlockingClient(Endpoint endpoint)
    : state_(std::make_unique<State>(std::move(endpoint))) {}

BlockingClient::~BlockingClient() = default;

Result<Response> BlockingClient::send(const Request& request, Duration timeout) {
  return state_->send(request, timeout, nullptr);
}

Result<Response> BlockingClient::stream(const Request& request, Duration timeout,
                                        const std::function<bool(std::string_view)>& sink) {
  return state_->send(request, timeout, &sink);
}

Result<Response> BlockingClient::upload(const Request& request, uint64_t size, Duration timeout,
                                        const BodySource& source) {
  State& state = *state_;
  state.stream.reset();  // what a connection lost of a body cannot be sent again
  state.deadline = state.clock.now() + timeout;
  state.buffer.resize(kReadSize);
  RETURN_IF_ERROR(state.connect());
  Request head = request;
  head.headers.set("Content-Length", std::to_string(size));
  Result<void> written = state.write_request(head);
  std::optional<Error> not_read;  // of the source, which is no matter of the server
  const BodySource noted = [&](std::string& piece) {
    const Result<void> read = source(piece);
    if (!read.ok()) not_read = read.error();
    return read;
  };
  if (written.ok()) written = state.write_body(noted, size, timeout);
  if (not_read) {
    state.stream.reset();
    return *not_read;
  }
  bool nothing_read = true;
  auto response = state.read_response(head, written, nullptr, nothing_read);
  if (!response.ok()) state.stream.reset();
  return response;
}

Result<Endpoint> parse_endpoint(std::string_view text) {
  const auto wrong = [text](std::string_view why) {
    return Error{ErrorCode::kInvalidArgument,
                 "'" + std::string(text) + "' is not an endpoint such as http://127.0.0.1:9000, " +
                     "https://node.example:8980 or unix:/run/lambent.sock: " + std::string(why)};
  };
  Endpoint endpoint;
  if (text.starts_with("unix:")) {
    endpoint.socket_path = text.substr(5);
    if (endpoint.socket_path.starts_with("//")) endpoint.socket_path.erase(0, 2);
    if (endpoint.socket_path.empty()) return wrong("the path is missing");
    return endpoint;
  }
  std::string_view rest = text;
  endpoint.encrypted = rest.starts_with("https://");
  if (endpoint.encrypted) rest.remove_prefix(8);
  if (rest.starts_with("http://")) rest.remove_prefix(7);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  endpoint.port = endpoint.encrypted ? 443 : 80;
  size_t colon = rest.rfind(':');
  if (rest.starts_with('[')) {
    const size_t bracket = rest.find(']');
    if (bracket == std::string_view::npos) return wrong("']' is missing");
    endpoint.host = rest.substr(1, bracket - 1);
    colon = bracket + 1 < rest.size() && rest[bracket + 1] == ':' ? bracket + 1
                                                                  : std::string_view::npos;
    if (colon == std::string_view::npos && bracket + 1 != rest.size()) return wrong("bad port");
  } else {
    endpoint.host = rest.substr(0, colon);
  }
  if (endpoint.host.empty() || endpoint.host.find('/') != std::string::npos) {
    return wrong("the host is missing");
  }
  if (colon != std::string_view::npos) {
    const std::string_view port = rest.substr(colon + 1);
    const auto [end, problem] =
        std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
    if (problem != std::errc() || end != port.data() + port.size() || endpoint.port == 0) {
      return wrong("bad port");
    }
  }
  return endpoint;
}

std::string to_string(const Endpoint& endpoint) {
  if (!endpoint.socket_path.empty()) return "unix:" + endpoint.socket_path;
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return (endpoint.encrypted ? "https://" : "http://") +
         (v6 ? "[" + endpoint.host + "]" : endpoint.host) + ":" + std::to_string(endpoint.port);
}

}  // namespace lambent::http
