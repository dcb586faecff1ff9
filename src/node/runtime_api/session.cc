#include "node/runtime_api/session.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/domain/limits.h"
#include "core/domain/trace_id.h"
#include "core/domain/version.h"
#include "node/runtime_api/error_type.h"
#include "node/runtime_api/limits.h"
#include "node/runtime_api/session_streaming.h"

namespace lambent::runtime_api {
namespace {

constexpr std::string_view kRuntime = "/2018-06-01/runtime/";
// What a runtime that waits for work has said to the program before this one.
constexpr std::string_view kNextAgain =
    "GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: 127.0.0.1:9001\r\n\r\n";
constexpr std::string_view kObjects = "/lambent/2026-11/objects";
// Of an invocation whose deadline moves: "/ID/deadline" follows.
constexpr std::string_view kInvocations = "/lambent/2026-11/invocations/";
constexpr std::string_view kExtension = "/2020-01-01/extension/";
// In an answer or a report of an error: its connection waits for the next invocation, as if it had
// been accepted and the next one asked for. Without it both take an exchange of their own.
constexpr std::string_view kAsksForNext = "Lambent-Runtime-Next";
// In a refusal of the next invocation to an answer that asked for it: "accepted" says that it is
// none of the answer.
constexpr const char* kOfAnswer = "Lambent-Runtime-Answer";
// The words of AWS, which clients look for; its limit has 100 bytes of slack above 6 MiB.
constexpr std::string_view kTooLarge = "Exceeded maximum allowed payload size (6291556 bytes).";
constexpr size_t kConnectionsPerSandbox = 64;  // beside those of a runtime that asks on several
constexpr size_t kMostExtensions = 10;
// So many answers of the largest size may be on their way at once.
constexpr size_t kLargeAnswers = 8;
// A connection is quiet for as long as a handler runs, which may be hours.
constexpr Duration kQuiet = std::chrono::hours(24 * 365);

http::Response wrong_state(std::string_view message) {
  return error_response(403, "InvalidStateTransition", message);
}

std::string_view type_for_status(int status) {
  switch (status) {
    case 413:
      return "RequestEntityTooLarge";
    case 431:
      return "RequestHeaderFieldsTooLarge";
    case 408:
      return "RequestTimeout";
    case 503:
      return "TooManyConnections";
    default:
      return "InvalidRequest";
  }
}

}  // namespace

Session::Session(loop::EventLoop& loop, OwnedFd listener, SessionOptions options,
                 Callbacks callbacks)
    : loop_(loop),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      self_(std::make_shared<Session*>(this)) {
  http::ServerOptions server;
  server.max_connections = kConnectionsPerSandbox + options_.most_running;
  // That of the runtime is idle while the handler works.
  server.idle_ones_make_room = false;
  server.max_headers = limits::kRuntimeApiHeaders;
  server.max_body = callbacks_.on_object ? std::max(limits::kHttpObject, options_.max_response)
                                         : options_.max_response;
  // A function may open many connections, but has few answers to give, and few objects at once.
  const size_t answers = std::min(options_.most_running, kLargeAnswers);
  server.max_unfinished_bodies = server.max_body + Bytes(options_.max_response.count * answers);
  server.idle_timeout = kQuiet;
  // A handler may take its time between two pieces.
  server.stream_timeout = kQuiet;
  server.streams = is_streamed_response;
  server.serve_half_closed = false;
  const std::shared_ptr<Session*> self = self_;
  server.error_response = [self](int status, std::string_view reason,
                                 const http::Request& partial) {
    return *self != nullptr ? (*self)->refuse(status, reason, partial)
                            : error_response(status, type_for_status(status), reason);
  };
  server.on_truncated = [self](const http::Request& partial) {
    if (*self != nullptr) (*self)->on_truncated(partial);
  };
  server_ = std::make_unique<http::Server>(
      loop_, std::move(server), [self](http::Request request, http::Responder responder) {
        if (*self != nullptr) (*self)->handle(std::move(request), std::move(responder));
      });
  const Result<void> listening = server_->listen(std::move(listener));
  if (listening.ok()) return;
  loop_.call_after(Duration::zero(), [self, why = to_string(listening.error())] {
    if (*self != nullptr && (*self)->callbacks_.on_init_error) {
      (*self)->callbacks_.on_init_error(error_json("Sandbox.Failure", why), "Sandbox.Failure");
    }
  });
}

Session::Session(loop::EventLoop& loop, HandedOverRuntime runtime, SessionOptions options,
                 Callbacks callbacks)
    : Session(loop, std::move(runtime.listener), std::move(options), std::move(callbacks)) {
  for (OwnedFd& each : runtime.resting) server_->take_over(std::move(each), {});
  for (OwnedFd& each : runtime.waiting) server_->take_over(std::move(each), kNextAgain);
}

std::optional<HandedOverRuntime> Session::hand_over() {
  if (!is_idle() || is_running() || has_undelivered() || !parked_extensions_.empty()) {
    return std::nullopt;
  }
  auto clients = server_->hand_over();
  if (!clients) return std::nullopt;
  const size_t parked = std::exchange(parked_, {}).size();
  HandedOverRuntime runtime;
  // One more that waits asks for an object.
  if (clients->listeners.size() != 1 || clients->waiting.size() != parked) return std::nullopt;
  runtime.listener = std::move(clients->listeners.front());
  runtime.waiting = std::move(clients->waiting);
  runtime.resting = std::move(clients->resting);
  return runtime;
}

Session::~Session() {
  *self_ = nullptr;
  for (const auto& streaming : streaming_) {
    if (streaming->sink) streaming->sink->on_room(nullptr);
  }
  loop_.cancel(return_timer_);
  for (Parked& each : parked_) {
    each.refuse(error_response(500, "Sandbox.Failure", "the sandbox ends"));
  }
  // We may be in a callback of the server's: it goes in the next turn.
  const std::shared_ptr<http::Server> server = std::move(server_);
  loop_.call_after(Duration::zero(), [server] {});
}

void Session::give(RuntimeInvocation invocation) {
  CHECK(running_.size() + pending_.size() < options_.most_running,
        "an invocation for a runtime that has as many as it may");
  CHECK(invocation.deadline.count() > 0, "an invocation without a deadline");
  if (is_idle()) {
    hand_out(std::move(invocation));
  } else {
    pending_.push_back(std::move(invocation));
  }
}

void Session::abandon(InvocationId invocation) {
  std::erase_if(pending_, [&](const RuntimeInvocation& each) { return each.id == invocation; });
  std::erase_if(running_, [&](const Running& each) { return each.id == invocation; });
  if (auto streaming = take_streaming(to_string(invocation))) {
    streaming->responder.send(
        error_response(410, "ClientGone", "nothing more of this answer is wanted"));
  }
}

milliseconds Session::from_now(Duration timeout) const {
  return std::chrono::duration_cast<milliseconds>(loop_.clock().wall_now() + timeout);
}

void Session::memory_came() {
  const auto count_from_now = [this](auto& invocation) {
    if (invocation.timeout_with_memory == Duration(0)) return;
    invocation.deadline = from_now(std::exchange(invocation.timeout_with_memory, Duration(0)));
  };
  for (RuntimeInvocation& each : pending_) count_from_now(each);
  for (Running& each : running_) count_from_now(each);
}

void Session::hand_out(RuntimeInvocation invocation) {
  running_.push_back({invocation.id, to_string(invocation.id), invocation.deadline,
                      invocation.timeout_with_memory});
  http::Response response;
  http::Headers& headers = response.headers;
  headers.add("Lambda-Runtime-Aws-Request-Id", running_.back().text);
  headers.add("Lambda-Runtime-Deadline-Ms", std::to_string(invocation.deadline.count()));
  if (invocation.timeout_with_memory > Duration(0)) {
    headers.add("Lambent-Runtime-Deadline", "moves");
  }
  const auto add = [&headers](std::string name, std::string& value) {
    if (!value.empty()) headers.add(std::move(name), std::move(value));
  };
  add("Lambda-Runtime-Invoked-Function-Arn", invocation.function_arn);
  // Below the invocation's own span. In every invocation, as libraries for tracing take its absence
  // for a process that starts up.
  headers.add("Lambda-Runtime-Trace-Id", trace_id_below(invocation.trace_id, invocation.id));
  add("Lambda-Runtime-Client-Context", invocation.client_context);
  if (invocation.content_type.empty()) invocation.content_type = "application/json";
  headers.add("Content-Type", std::move(invocation.content_type));
  response.body = std::move(invocation.payload);
  http::Responder responder = std::move(parked_.front().responder);
  parked_.pop_front();
  responder.send(std::move(response));
}

void Session::handle(http::Request request, http::Responder responder) {
  const std::string target = request.target;
  const std::string_view path = http::path_of(target);
  const bool get = request.method == "GET";
  const bool post = request.method == "POST";
  if (path.starts_with(kRuntime)) {
    const std::string_view rest = path.substr(kRuntime.size());
    if (rest == "invocation/next") {
      if (get) return handle_next(std::move(responder), false);
    } else if (rest == "init/error") {
      if (post) return handle_init_error(std::move(request), std::move(responder));
    } else if (rest.starts_with("invocation/")) {
      return handle_invocation(rest.substr(11), std::move(request), std::move(responder));
    } else if (rest.starts_with("restore/")) {
      return responder.send(error_response(404, "NotFound", "restoring snapshots is not offered"));
    } else {
      return responder.send(error_response(404, "NotFound", "no such call: " + target));
    }
    return responder.send(error_response(405, "MethodNotAllowed", "not with " + request.method));
  }
  if (path.starts_with(kObjects) && callbacks_.on_object) {
    const std::string_view rest = path.substr(kObjects.size());
    if (rest.empty() || rest.starts_with('/')) {
      return callbacks_.on_object(std::move(request), rest, std::move(responder));
    }
  }
  if (path.starts_with(kInvocations) && path.ends_with("/deadline") && get) {
    const std::string_view rest = path.substr(kInvocations.size());
    return handle_deadline(rest.substr(0, rest.find('/')), std::move(responder));
  }
  if (path == "/2018-06-01/ping" && get) {
    http::Response pong;
    pong.headers.add("Content-Type", "text/plain");
    pong.body = "pong";
    return responder.send(std::move(pong));
  }
  if (path.starts_with(kExtension)) {
    return handle_extension(path.substr(kExtension.size()), request, std::move(responder));
  }
  if (path == "/2022-07-01/telemetry" || path == "/2020-08-15/logs") {
    // Accepted, so that layers made for Lambda start, and told that nothing will come.
    const bool logs = path == "/2020-08-15/logs";
    return responder.send(
        error_response(202, logs ? "Logs.NotSupported" : "Telemetry.NotSupported",
                       logs ? "Logs API is not supported" : "Telemetry API is not supported"));
  }
  responder.send(error_response(404, "NotFound", "no such call: " + target));
}

void Session::Parked::refuse(http::Response refusal) {
  if (answered) refusal.headers.add(kOfAnswer, "accepted");
  http::Responder refused = std::move(responder);
  refused.send(std::move(refusal));
}

void Session::handle_next(http::Responder responder, bool answered) {
  Parked call{next_parked_++, std::move(responder), answered};
  if (options_.most_running == 1 && is_running()) {
    return call.refuse(
        wrong_state("the invocation " + running_.front().text + " has not been answered"));
  }
  // Of several one more may always wait: the runtime does not know which were abandoned, and goes
  // on with them.
  const size_t left = options_.most_running - std::min(running_.size(), options_.most_running);
  if (parked_.size() >= std::max(left, size_t{1})) {
    // A runtime that opened a new connection: the newest call is the one that is read.
    Parked replaced = std::move(parked_.front());
    parked_.pop_front();
    replaced.refuse(wrong_state("another call for the next invocation took this one's place"));
  }
  has_asked_ = true;
  loop_.cancel(return_timer_);
  call.responder.on_disconnect([self = self_, number = call.number] {
    Session* session = *self;
    if (session == nullptr) return;
    std::erase_if(session->parked_, [=](const Parked& each) { return each.number == number; });
    if (session->callbacks_.on_disconnect) session->callbacks_.on_disconnect();
  });
  parked_.push_back(std::move(call));
  if (!pending_.empty()) {
    RuntimeInvocation invocation = std::move(pending_.front());
    pending_.pop_front();
    hand_out(std::move(invocation));
  } else if (callbacks_.on_ready && running_.empty()) {
    callbacks_.on_ready();
  }
}

void Session::handle_invocation(std::string_view rest, http::Request request,
                                http::Responder responder) {
  const size_t slash = rest.find('/');
  const std::string_view id = rest.substr(0, slash);
  const std::string_view what =
      slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
  if (what != "response" && what != "error") {
    return responder.send(error_response(404, "NotFound", "no such call: " + request.target));
  }
  if (request.method != "POST") {
    return responder.send(error_response(405, "MethodNotAllowed", "not with " + request.method));
  }
  if (!has_asked_) {
    return responder.send(wrong_state("no invocation was asked for yet"));
  }
  if (find_running(id) == nullptr) {
    return responder.send(
        error_response(400, "InvalidRequestID", "the invocation is not, or no longer, being run"));
  }
  if (what == "response") {
    handle_response(id, std::move(request), std::move(responder));
  } else {
    handle_error(id, std::move(request), std::move(responder));
  }
}

void Session::handle_deadline(std::string_view id, http::Responder responder) {
  const Running* running = find_running(id);
  if (running == nullptr) {
    return responder.send(
        error_response(400, "InvalidRequestID", "the invocation is not, or no longer, being run"));
  }
  const bool moves = running->timeout_with_memory > Duration(0);
  const milliseconds deadline = moves ? from_now(running->timeout_with_memory) : running->deadline;
  http::Response response;
  response.headers.add("Content-Type", "application/json");
  response.body = R"({"deadlineMs":)" + std::to_string(deadline.count()) + R"(,"moves":)" +
                  (moves ? "true}" : "false}");
  responder.send(std::move(response));
}

const Session::Running* Session::find_running(std::string_view id) const {
  const auto found = std::find_if(running_.begin(), running_.end(),
                                  [&](const Running& each) { return each.text == id; });
  return found != running_.end() ? &*found : nullptr;
}

InvocationId Session::take_running(std::string_view id) {
  const Running* found = find_running(id);
  CHECK(found != nullptr, "an invocation that is answered is running");
  const InvocationId taken = found->id;
  running_.erase(running_.begin() + (found - running_.data()));
  return taken;
}

void Session::handle_response(std::string_view id, http::Request request,
                              http::Responder responder) {
  const std::string_view mode = request.headers.get("Lambda-Runtime-Function-Response-Mode");
  if (mode == "streaming") return handle_stream(id, std::move(request), std::move(responder));
  if (!mode.empty() && mode != "buffered") {
    return responder.send(error_response(400, "InvalidFunctionResponseMode",
                                         "unknown response mode '" + std::string(mode) + "'"));
  }
  if (find_streaming(id) != nullptr) {
    return responder.send(wrong_state("the invocation is being answered by a stream"));
  }
  const bool asks = request.headers.contains(kAsksForNext);
  // The server takes larger bodies, for objects.
  if (Bytes(request.body.size()) > options_.max_response) {
    fail_running(id, "Function.ResponseSizeTooLarge", kTooLarge);
    return responder.send(error_response(413, type_for_status(413), kTooLarge));
  }
  const InvocationId answered = take_running(id);
  const std::shared_ptr<Session*> self = self_;
  // The caller's answer goes out before the runtime's: a client waits for it.
  if (callbacks_.on_response) {
    callbacks_.on_response(answered, std::move(request.body),
                           std::string(request.headers.get("Content-Type")));
  }
  accept(self, asks, std::move(responder));
}

void Session::handle_error(std::string_view id, http::Request request, http::Responder responder) {
  // What it streamed until now is not all of an answer.
  const std::unique_ptr<Streaming> streaming = take_streaming(id);
  const InvocationId answered = take_running(id);
  std::string type = error_type_of(request.headers.get("Lambda-Runtime-Function-Error-Type"),
                                   request.body, "Function.Unknown");
  const std::shared_ptr<Session*> self = self_;
  if (callbacks_.on_error) {
    callbacks_.on_error(answered, std::move(request.body), std::move(type));
  }
  accept(self, request.headers.contains(kAsksForNext), std::move(responder));
}

// `self` may be gone: a callback ran.
void Session::accept(const std::shared_ptr<Session*>& self, bool asks, http::Responder responder) {
  if (asks && *self != nullptr) return (*self)->handle_next(std::move(responder), true);
  responder.send(accepted());
}

void Session::handle_init_error(http::Request request, http::Responder responder) {
  if (has_asked_) {
    return responder.send(wrong_state("the runtime has initialised already"));
  }
  std::string type = error_type_of(request.headers.get("Lambda-Runtime-Function-Error-Type"),
                                   request.body, "Runtime.Unknown");
  responder.send(accepted());
  if (callbacks_.on_init_error) {
    callbacks_.on_init_error(std::move(request.body), std::move(type));
  }
}

// Extensions may register and wait, so that layers made for Lambda start; no event ever comes.
void Session::handle_extension(std::string_view rest, const http::Request& request,
                               http::Responder responder) {
  if (rest == "register" && request.method == "POST") {
    SystemRandom random;
    const FunctionName name{.tenant = {}, .name = options_.function_name};
    http::Response response =
        json_response(200, "{\"functionName\":\"" + json_escape(name.name) +
                               "\",\"functionVersion\":\"" + json_escape(version_of(name)) +
                               "\",\"handler\":\"" + json_escape(options_.handler) + "\"}");
    response.headers.add("Lambda-Extension-Identifier", to_string(new_invocation_id(random)));
    return responder.send(std::move(response));
  }
  if (rest == "event/next" && request.method == "GET") {
    if (parked_extensions_.size() >= kMostExtensions) {
      return responder.send(error_response(429, "Extension.TooMany", "too many extensions wait"));
    }
    const uint64_t extension = next_extension_++;
    responder.on_disconnect([self = self_, extension] {
      if (*self != nullptr) (*self)->parked_extensions_.erase(extension);
    });
    parked_extensions_.emplace(extension, std::move(responder));
    return;
  }
  if ((rest == "init/error" || rest == "exit/error") && request.method == "POST") {
    return responder.send(accepted());
  }
  responder.send(error_response(404, "NotFound", "no such call: " + request.target));
}

void Session::fail_running(std::string_view id, std::string_view error_type,
                           std::string_view message) {
  const InvocationId failed = take_running(id);
  expect_return();
  if (callbacks_.on_error) {
    callbacks_.on_error(failed, error_json(error_type, message), std::string(error_type));
  }
}

// The caller has its outcome, but the runtime may be sending what is not read, or wait for an
// answer that it will not get. It is no place for the next invocation until it asks for it.
void Session::expect_return() {
  if (is_idle() || !running_.empty()) return;
  loop_.cancel(return_timer_);
  return_timer_ = loop_.call_after(kReturnTime, [self = self_] {
    if (*self != nullptr && (*self)->callbacks_.on_stuck) (*self)->callbacks_.on_stuck();
  });
}

// The invocation whose outcome a request would have been that did not come whole: by its path. None
// if it is being answered by a stream, on another connection, which goes on.
const Session::Running* Session::answered_by(const http::Request& partial) const {
  constexpr std::string_view kInvocation = "invocation/";
  std::string_view path = http::path_of(partial.target);
  if (!path.starts_with(kRuntime)) return nullptr;
  path.remove_prefix(kRuntime.size());
  if (!path.starts_with(kInvocation)) return nullptr;
  path.remove_prefix(kInvocation.size());
  const size_t slash = path.find('/');
  if (slash == std::string_view::npos) return nullptr;
  const std::string_view what = path.substr(slash + 1);
  if (what != "response" && what != "error") return nullptr;
  const std::string_view id = path.substr(0, slash);
  return find_streaming(id) == nullptr ? find_running(id) : nullptr;
}

// The server answers a request by itself. The invocation whose outcome it would have been ends. If
// the path of a body above the limit names none, it is the one that runs, if exactly one does. For
// another reason only answers of several at once are refused, where each may be its runtime's last
// word; a runtime with one may answer again.
http::Response Session::refuse(int status, std::string_view reason, const http::Request& partial) {
  const bool too_large = status == 413;
  const std::string_view why = too_large ? kTooLarge : reason;
  const bool ends = too_large || options_.most_running > 1;
  const Running* answered = ends ? answered_by(partial) : nullptr;
  if (answered == nullptr && too_large && running_.size() == 1 && streaming_.empty()) {
    answered = &running_.front();
  }
  if (answered != nullptr) {
    fail_running(std::string(answered->text),
                 too_large ? "Function.ResponseSizeTooLarge" : "Runtime.ResponseRefused", why);
  }
  return error_response(status, type_for_status(status), why);
}

void Session::on_truncated(const http::Request& partial) {
  const Running* answered = answered_by(partial);
  if (answered == nullptr || !http::path_of(partial.target).ends_with("/response")) return;
  fail_running(std::string(answered->text), "Runtime.TruncatedResponse",
               "the runtime went away in the middle of its response");
}

}  // namespace lambent::runtime_api
