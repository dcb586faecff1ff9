#include "edge/runtime_client/runtime_client.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/base/log.h"
#include "edge/runtime_client/http_response.h"

namespace lambent::runtime_client {
namespace {

constexpr std::string_view kPrefix = "/2018-06-01/runtime/";
constexpr std::string_view kRequestId = "lambda-runtime-aws-request-id";
constexpr std::string_view kOfAnswer = "lambent-runtime-answer";
constexpr std::string_view kErrorJson = "application/vnd.aws.lambda.error+json";
constexpr size_t kReadBytes = 64 * 1024;

Result<OwnedFd> open_connection(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) {
    return Error{ErrorCode::kInvalidArgument,
                 "AWS_LAMBDA_RUNTIME_API is '" + address + "', not host:port"};
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(address.substr(0, colon).c_str(),
                                    address.substr(colon + 1).c_str(), &hints, &found);
      error != 0) {
    return Error{ErrorCode::kUnavailable, "Runtime API at " + address + ": " + gai_strerror(error)};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  OwnedFd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return error_from_errno("socket", errno);
  if (::connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0) {
    return error_from_errno("connect to the Runtime API at " + address, errno);
  }
  const int yes = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  return fd;
}

std::string to_json(const HandlerError& error) {
  return "{\"errorMessage\":\"" + json_escape(error.message) + "\",\"errorType\":\"" +
         json_escape(error.type) + "\",\"stackTrace\":[]}";
}

// All of `data`, without a signal if the other side is gone.
Result<void> send_all(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t sent = send(fd, data.data(), data.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return error_from_errno("write to the Runtime API", errno);
    data.remove_prefix(static_cast<size_t>(sent));
  }
  return {};
}

// A header's value must not end its line.
std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    if (c == '\r' || c == '\n') c = ' ';
  }
  return line;
}

std::string error_type_line(const HandlerError& error) {
  return "Lambda-Runtime-Function-Error-Type: " + one_line(error.type) + "\r\n";
}

}  // namespace

struct Client::Exchange {
  std::string buffer;  // what was received; its first `size` bytes
  size_t size = 0;
  size_t done = 0;  // bytes of the response before
  HttpResponse response;
};

Client::Client(std::string address)
    : address_(std::move(address)), exchange_(std::make_unique<Exchange>()) {}

Client::Client(Client&&) noexcept = default;
Client::~Client() = default;

Result<Client> Client::connect(const std::string& address) {
  Client client(address);
  RETURN_IF_ERROR(client.reconnect());
  return client;
}

Result<void> Client::reconnect() {
  ASSIGN_OR_RETURN(connection_, open_connection(address_));
  exchange_->size = exchange_->done = 0;
  return {};
}

void Client::begin_request(std::string_view method, std::string_view path) {
  request_.assign(method).append(" ").append(kPrefix).append(path);
  request_.append(" HTTP/1.1\r\nHost: ").append(address_).append("\r\n");
}

void Client::end_request(std::string_view content_type, std::string_view extra,
                         std::string_view body) {
  request_.append("Content-Type: ").append(content_type).append("\r\n").append(extra);
  request_.append("Content-Length: ").append(std::to_string(body.size())).append("\r\n\r\n");
  request_.append(body);
}

Result<void> Client::exchange() {
  Exchange& state = *exchange_;
  if (!connection_.valid()) RETURN_IF_ERROR(reconnect());
  RETURN_IF_ERROR(send_all(connection_.get(), request_));
  // Nothing is pipelined, so what remains is empty; kept general for the sake of correctness.
  memmove(state.buffer.data(), state.buffer.data() + state.done, state.size - state.done);
  state.size -= state.done;
  state.done = 0;
  while (true) {
    ASSIGN_OR_RETURN(const bool complete,
                     parse_response({state.buffer.data(), state.size}, state.response));
    if (complete) break;
    if (state.buffer.size() < state.size + kReadBytes) {
      state.buffer.resize(std::max(2 * state.buffer.size(), state.size + kReadBytes));
    }
    const ssize_t got =
        read(connection_.get(), state.buffer.data() + state.size, state.buffer.size() - state.size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error_from_errno("read from the Runtime API", errno);
    if (got == 0) return Error{ErrorCode::kUnavailable, "the Runtime API closed the connection"};
    state.size += static_cast<size_t>(got);
  }
  state.done = state.response.consumed;
  if (!state.response.keep_alive) connection_.reset();
  return {};
}

Result<void> Client::post() {
  RETURN_IF_ERROR(exchange());
  return check_accepted();
}

Result<void> Client::check_accepted() const {
  const HttpResponse& response = exchange_->response;
  if (response.status / 100 == 2) return {};
  return Error{response.status == 413 ? ErrorCode::kOutOfRange : ErrorCode::kFailedPrecondition,
               "the Runtime API answered " + std::to_string(response.status) + " " +
                   std::string(response.content().substr(0, 500))};
}

Result<Invocation> Client::next() {
  begin_request("GET", "invocation/next");
  request_.append("\r\n");
  RETURN_IF_ERROR(exchange());
  return received_invocation();
}

Result<Invocation> Client::received_invocation() const {
  const HttpResponse& response = exchange_->response;
  if (response.status != 200) {
    return Error{ErrorCode::kUnavailable,
                 "the Runtime API answered " + std::to_string(response.status) + " to next"};
  }
  Invocation invocation;
  invocation.request_id = response.header(kRequestId);
  if (invocation.request_id.empty()) {
    return Error{ErrorCode::kInternal, "the Runtime API sent an invocation without request id"};
  }
  invocation.payload = response.content();
  invocation.content_type = response.header("content-type");
  invocation.function_arn = response.header("lambda-runtime-invoked-function-arn");
  invocation.trace_id = response.header("lambda-runtime-trace-id");
  const std::string_view deadline = response.header("lambda-runtime-deadline-ms");
  int64_t deadline_ms = 0;
  std::from_chars(deadline.data(), deadline.data() + deadline.size(), deadline_ms);
  invocation.deadline = milliseconds(deadline_ms);
  return invocation;
}

Result<Invocation> Client::answer_and_next(std::string_view request_id, const Outcome& outcome) {
  constexpr std::string_view kAsksForNext = "Lambent-Runtime-Next: wait\r\n";
  const std::string path = "invocation/" + std::string(request_id);
  if (const auto* response = std::get_if<Response>(&outcome)) {
    begin_request("POST", path + "/response");
    end_request(one_line(response->content_type), kAsksForNext, response->payload);
  } else {
    const auto& error = std::get<HandlerError>(outcome);
    begin_request("POST", path + "/error");
    end_request(kErrorJson, error_type_line(error).append(kAsksForNext), to_json(error));
  }
  RETURN_IF_ERROR(exchange());
  const HttpResponse& response = exchange_->response;
  const bool is_next = response.status == 200 && !response.header(kRequestId).empty();
  // A refusal is the answer's unless it says that it is that of the next invocation.
  if (is_next || response.header(kOfAnswer) == "accepted") return received_invocation();
  RETURN_IF_ERROR(check_accepted());
  return next();
}

Result<void> Client::fail_init(const HandlerError& error) {
  begin_request("POST", "init/error");
  end_request(kErrorJson, error_type_line(error), to_json(error));
  return post();
}

namespace {

int give_up(const Error& error) {
  std::fprintf(stderr, "handler: %s\n", error.message.c_str());
  return exit_code_of(error.code);
}

// Serves until the connection ends; what made it end.
Error serve(Client& client, const Handler& handler) {
  Result<Invocation> invocation = client.next();
  while (invocation.ok()) {
    const Outcome outcome = handler(*invocation);
    // The id outlives the views into the buffer that the answer reuses.
    invocation = client.answer_and_next(std::string(invocation->request_id), outcome);
    if (invocation.ok()) continue;
    // A refused answer (too large, too late) concerns only its invocation.
    const ErrorCode code = invocation.error().code;
    if (code != ErrorCode::kOutOfRange && code != ErrorCode::kFailedPrecondition) break;
    std::fprintf(stderr, "handler: %s\n", invocation.error().message.c_str());
    invocation = client.next();
  }
  return invocation.error();
}

}  // namespace

int run(const std::function<Result<Handler>()>& make_handler) {
  const char* address = std::getenv("AWS_LAMBDA_RUNTIME_API");
  if (address == nullptr) {
    return give_up({ErrorCode::kFailedPrecondition,
                    "AWS_LAMBDA_RUNTIME_API is not set: this program is started by Lambent"});
  }
  auto client = Client::connect(address);
  if (!client.ok()) return give_up(client.error());
  const auto handler = make_handler();
  if (!handler.ok()) {
    const auto posted = client->fail_init({handler.error().message, "Runtime.InitError"});
    if (!posted.ok()) return give_up(posted.error());
    return give_up(handler.error());
  }
  return give_up(serve(*client, *handler));
}

int run(const Handler& handler) {
  return run([&]() -> Result<Handler> { return handler; });
}

}  // namespace lambent::runtime_client
