#include "edge/frontend/routed_calls.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/base64.h"
#include "core/base/json_text.h"
#include "core/http/exchange.h"
#include "core/http/forward_words.h"
#include "core/http/message.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

constexpr std::string_view kRoutedTarget = "/2015-03-31/functions/";
// A call that was promised and found no room is sent again after so long, at least.
constexpr Duration kTryAgain = seconds(1);
constexpr const char* kPlaceFailed = "Sandbox.Failure";

std::optional<int64_t> number_in(const http::Headers& headers, std::string_view name) {
  const std::string_view text = headers.get(name);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Duration microseconds_in(const http::Headers& headers, std::string_view name) {
  return microseconds(number_in(headers, name).value_or(0));
}

// Of a refusal in Lambda's form.
Error error_in(const http::Response& response) {
  Error error{ErrorCode::kInternal,
              "a node answered with status " + std::to_string(response.status)};
  const auto code = error_code_from_name(response.headers.get("x-lambent-code"));
  error.code = code.value_or(error.code);
  const json body = json::parse(response.body, nullptr, false);
  for (const char* key : {"Message", "message"}) {
    if (body.is_object() && body.contains(key) && body.at(key).is_string()) {
      error.message = body.at(key).get<std::string>();
    }
  }
  return error;
}

// What outcome_headers.cc wrote.
InvocationResult result_in(http::Response response, InvocationId asked) {
  const http::Headers& headers = response.headers;
  InvocationResult result;
  result.id = invocation_id_from_string(headers.get("x-amzn-requestid")).value_or(asked);
  result.wait_reason = headers.get("x-lambent-wait-reason");
  result.error_type = headers.get("x-lambent-error-type");
  result.version = headers.get("x-amz-executed-version");
  result.runs = static_cast<unsigned>(number_in(headers, "x-lambent-runs").value_or(0));
  result.revision = static_cast<uint64_t>(number_in(headers, "x-lambent-revision").value_or(0));
  if (!headers.get("x-amz-function-error").empty()) result.outcome = Outcome::kFunctionError;
  for (const StartClass start : {StartClass::kCold, StartClass::kGpuCold, StartClass::kWarm}) {
    if (headers.get("x-lambent-start") == name_of(start)) result.start = start;
  }
  result.phases = {.queue = microseconds_in(headers, "x-lambent-queue-us"),
                   .sandbox = microseconds_in(headers, "x-lambent-sandbox-us"),
                   .init = microseconds_in(headers, "x-lambent-init-us"),
                   .memory = microseconds_in(headers, "x-lambent-memory-us"),
                   .run = microseconds_in(headers, "x-lambent-run-us")};
  // By which a failure of the place is told from the function's own words.
  if (const auto code = error_code_from_name(headers.get("x-lambent-code"))) {
    result.error = Error{*code, result.error_type};
  }
  result.payload = std::move(response.body);
  return result;
}

InvocationResult rejected(InvocationId id, Error error, Duration retry_after) {
  InvocationResult result;
  result.id = id;
  result.outcome = Outcome::kRejected;
  result.error = std::move(error);
  result.retry_after = retry_after;
  return result;
}

// The answer to Invoke, of a synchronous call or an event.
Result<InvocationResult> result_of(http::Response response, InvocationId asked) {
  if (response.status == 202) return result_in(std::move(response), asked);
  if (response.status == 200) return result_in(std::move(response), asked);
  Error error = error_in(response);
  if (response.headers.get("x-lambent-outcome") != name_of(Outcome::kRejected)) return error;
  const auto wait = number_in(response.headers, "retry-after-ms").value_or(0);
  return rejected(asked, std::move(error), milliseconds(wait));
}

std::string needs_in_words(const std::vector<ObjectId>& needs) {
  std::string words;
  for (const ObjectId need : needs) words += (words.empty() ? "" : ",") + to_string(need);
  return words;
}

http::Request request_of(const InvocationRequest& invocation) {
  http::Request request;
  request.method = "POST";
  request.target =
      std::string(kRoutedTarget) + http::percent_encode(invocation.function.name) + "/invocations";
  const auto add = [&](const char* name, std::string value) {
    if (!value.empty()) request.headers.add(name, std::move(value));
  };
  add("Content-Type",
      invocation.content_type.empty() ? "application/json" : invocation.content_type);
  add("X-Amz-Client-Context",
      invocation.client_context.empty() ? "" : base64_encode(invocation.client_context));
  add("X-Amzn-Trace-Id", invocation.trace_id);
  add("amz-sdk-invocation-id", invocation.idempotency_key);
  add("X-Lambent-Needs", needs_in_words(invocation.needs));
  if (invocation.kind == InvocationKind::kAsynchronous) add("X-Amz-Invocation-Type", "Event");
  request.body = invocation.payload;
  return request;
}

}  // namespace

// The client's end of one request: its answer, whole, goes to a callback, exactly once.
class RoutedCalls::Exchange final : public http::Responder::Exchange {
 public:
  using Answered = std::function<void(http::Response)>;
  explicit Exchange(Answered answered) : answered_(std::move(answered)) {}

  // Who asked is gone: what it does is for no one.
  void leave() {
    answered_ = nullptr;
    if (const auto left = std::exchange(left_, nullptr)) left();
  }
  // It is answered by other means.
  void mute() { answered_ = nullptr; }
  // Why no node answered, as the cluster says; as an answer, see refused().
  std::optional<Error> refusal;

  void send(http::Response response) override {
    left_ = nullptr;
    if (const auto answered = std::exchange(answered_, nullptr)) answered(std::move(response));
  }
  void start_chunked(http::Response head) override { head_ = std::move(head); }
  bool send_chunk(std::string_view data) override {
    head_.body.append(data);
    return answered_ != nullptr;
  }
  void finish_chunked() override { send(std::move(head_)); }
  void on_disconnect(std::function<void()> callback) override { left_ = std::move(callback); }
  void abandon() override {
    if (answered_ == nullptr) return;
    refusal = Error{ErrorCode::kUnavailable, "NodeLost: the answer of another node was cut off; " +
                                                 std::string(http::kMayHaveRun)};
    send({.status = 503});
  }

 private:
  Answered answered_;
  std::function<void()> left_;
  http::Response head_;
};

struct RoutedCalls::Call {
  InvocationRequest request;
  Done done;
  std::shared_ptr<Exchange> exchange;
  std::optional<loop::TimerId> again;
  bool is_here = false;  // this node runs it
};

RoutedCalls::~RoutedCalls() {
  for (const auto& [id, call] : calls_) {
    if (call->again) uses_.loop.cancel(*call->again);
  }
}

http::ForwardCall RoutedCalls::call_of(const std::shared_ptr<Exchange>& exchange, TenantId tenant,
                                       std::string method, std::string target) const {
  return {.principal = {.tenant = tenant, .scopes = Scopes::all(), .token = {}},
          .tenant = uses_.access.tenant_name(tenant),
          .request = {.method = std::move(method), .target = std::move(target)},
          .responder = http::Responder(exchange),
          .here = [](const http::Request&,
                     http::Responder responder) { responder.send({.status = 404}); },
          .response_of =
              [exchange](const Error& error) {
                exchange->refusal = error;
                return http::Response{.status = 503};
              }};
}

void RoutedCalls::submit(InvocationRequest request, Done done) {
  auto call = std::make_shared<Call>();
  call->request = std::move(request);
  call->done = std::move(done);
  if (call->request.kind == InvocationKind::kSynchronous) calls_[call->request.id] = call;
  route(call);
}

void RoutedCalls::route(const CallPtr& call) {
  const InvocationRequest& request = call->request;
  call->exchange = std::make_shared<Exchange>([this, call, alive = std::weak_ptr(alive_)](
                                                  http::Response response) {
    if (alive.expired()) return;
    const auto refusal = std::exchange(call->exchange->refusal, std::nullopt);
    if (!refusal) return answered(call, result_of(std::move(response), call->request.id));
    const bool may_have_run = refusal->message.find(http::kMayHaveRun) != std::string::npos;
    const bool is_event = call->request.kind == InvocationKind::kAsynchronous;
    if (!may_have_run || is_event) return answered(call, *refusal);
    InvocationResult lost;
    lost.id = call->request.id;
    lost.outcome = Outcome::kFunctionError;
    lost.error_type = kPlaceFailed;
    lost.error = *refusal;
    lost.payload = json_text(json{{"errorType", kPlaceFailed}, {"errorMessage", refusal->message}});
    answered(call, std::move(lost));
  });
  http::ForwardCall forward = call_of(call->exchange, request.function.tenant, "", "");
  forward.destination = request.kind == InvocationKind::kAsynchronous
                            ? http::Destination::kAnyNodeAndMore
                            : http::Destination::kAnyNode;
  forward.function = request.function;
  forward.request = request_of(request);
  forward.here = [this, call](const http::Request&, http::Responder) {
    call->is_here = true;
    call->exchange->mute();
    uses_.here.submit(call->request,
                      [this, call, alive = std::weak_ptr(alive_)](Result<InvocationResult> result) {
                        if (!alive.expired()) answered(call, std::move(result));
                      });
  };
  uses_.nodes.route(std::move(forward));
}

void RoutedCalls::answered(const CallPtr& call, Result<InvocationResult> result) {
  const bool is_known =
      call->request.kind == InvocationKind::kAsynchronous || calls_.contains(call->request.id);
  if (!is_known) return;  // it was forgotten
  const bool is_full = result.ok() && result->outcome == Outcome::kRejected && result->error &&
                       result->error->code == ErrorCode::kResourceExhausted;
  if (is_full && call->request.acknowledged) {
    call->is_here = false;
    call->again = uses_.loop.call_after(std::max(kTryAgain, result->retry_after), [this, call] {
      call->again.reset();
      route(call);
    });
    return;
  }
  calls_.erase(call->request.id);
  const Done done = std::exchange(call->done, nullptr);
  call->exchange.reset();
  done(std::move(result));
}

void RoutedCalls::forget(InvocationId id) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  const CallPtr call = found->second;
  if (call->is_here) return uses_.here.forget(id);
  calls_.erase(found);
  if (call->again) uses_.loop.cancel(*call->again);
  if (call->exchange) call->exchange->leave();
  const Done done = std::exchange(call->done, nullptr);
  call->exchange.reset();
  done(Error{ErrorCode::kCancelled, "nothing waits for this call any more"});
}

void RoutedCalls::async_result(TenantId tenant, InvocationId id,
                               std::function<void(Result<std::optional<InvocationResult>>)> done) {
  using Found = std::optional<InvocationResult>;
  uses_.here.async_result(
      tenant, id,
      [this, tenant, id, alive = std::weak_ptr(alive_),
       done = std::move(done)](Result<Found> found) mutable {
        const bool may_be_elsewhere = !found.ok() && found.error().code == ErrorCode::kNotFound;
        if (!may_be_elsewhere || alive.expired()) return done(std::move(found));
        auto exchange =
            std::make_shared<Exchange>([id, done = std::move(done)](http::Response response) {
              if (response.status == 202) return done(Found());
              if (response.status != 200) {
                return done(Error{ErrorCode::kNotFound, "no node that answers has its result"});
              }
              const bool rejected =
                  response.headers.get("x-lambent-outcome") == name_of(Outcome::kRejected);
              InvocationResult result = result_in(std::move(response), id);
              if (rejected) result.outcome = Outcome::kRejected;
              done(Found(std::move(result)));
            });
        http::ForwardCall call =
            call_of(exchange, tenant, "GET", "/v1/invocations/" + to_string(id));
        call.destination = http::Destination::kWhoKnows;
        uses_.nodes.route(std::move(call));
      });
}

void RoutedCalls::remove_object(TenantId tenant, ObjectId object) {
  auto exchange = std::make_shared<Exchange>([](const http::Response&) {});
  http::ForwardCall call = call_of(exchange, tenant, "DELETE", "/v1/objects/" + to_string(object));
  call.destination = http::Destination::kAllWhoKnow;
  uses_.nodes.route(std::move(call));
}

}  // namespace lambent::frontend
