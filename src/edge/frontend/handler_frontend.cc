#include "edge/frontend/handler_frontend.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/base/json_text.h"
#include "core/domain/limits.h"
#include "core/domain/version.h"
#include "core/http/forward_words.h"
#include "core/http/hop_by_hop.h"
#include "core/http/streamed_exchange.h"
#include "core/http/trace_context.h"
#include "edge/frontend/function_event.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/offload.h"

namespace lambent::frontend {
namespace {

// What a caller learns of a function that failed: which request that was, and `reason` if there is
// one.
http::Response plain_failure(int status, InvocationId id, const std::string& reason = "") {
  http::Response response;
  response.status = status;
  response.headers.add("Content-Type", "application/json");
  const char* words = status == 504   ? "Gateway Timeout"
                      : status == 502 ? "Internal Server Error"
                      : status == 503 ? "Service Unavailable"
                                      : "Request Refused";
  nlohmann::json body = {{"message", words}, {"requestId", to_string(id)}};
  if (!reason.empty()) body["reason"] = reason;
  response.body = json_text(body);
  return response;
}

// The answer to one request. Shared by the invocation's callbacks and the session that streams.
class UrlAnswer final : public http::AnswerSink, public std::enable_shared_from_this<UrlAnswer> {
 public:
  UrlAnswer(InvocationId id, http::RelayCall call, InvokeMode mode)
      : id_(id), call_(std::move(call)), streams_(mode == InvokeMode::kStream) {}

  void listen(http::RelayService& relays) {
    call_.responder.on_disconnect([self = shared_from_this(), &relays] {
      self->is_gone_ = true;
      self->go_on();
      relays.forget(self->id_);
    });
  }

  void begin(std::string_view content_type) override { head_.emplace(content_type); }

  bool take(std::string_view bytes) override {
    if (client_is_gone() || !head_) return false;
    const auto known = head_->feed(bytes);
    if (!known.ok()) {
      is_malformed_ = true;
      why_malformed_ = known.error().message;
      return false;
    }
    if (!*known) return true;
    if (streams_) return pass(bytes);
    is_malformed_ = body_.size() + bytes.size() > limits::kResponsePayload.count;
    if (is_malformed_) why_malformed_ = "it has more than " + to_string(limits::kResponsePayload);
    if (!is_malformed_) body_ += bytes;
    return !is_malformed_;
  }

  void on_room(std::function<void()> callback) override { room_ = std::move(callback); }
  // Nor does anyone want what follows something malformed.
  bool client_is_gone() const override { return is_gone_ || is_malformed_; }

  bool streamed() const { return head_.has_value(); }

  void finish(const Result<InvocationResult>& ended) {
    if (is_gone_) return;
    const bool succeeded = ended.ok() && ended->outcome == Outcome::kSucceeded;
    if (started_) {
      // Cut off where it failed: never an end that looks whole.
      if (succeeded && !is_malformed_) stream_->finish();
      return drop();
    }
    if (!succeeded) return send(failure_of(ended));
    // Perhaps nothing was streamed, or less than a head.
    if (!is_malformed_) {
      std::string_view nothing;
      const auto known = head_->feed(nothing);
      is_malformed_ = !known.ok() || !*known;
      if (is_malformed_)
        why_malformed_ = known.ok() ? "its head has no end" : known.error().message;
    }
    if (is_malformed_) return send(no_response(why_malformed_));
    http::Response response = std::move(head_->response());
    response.body = std::move(body_);
    send(std::move(response));
  }

  // Of a handler that succeeded, but whose answer cannot be one to this request. Why is for those
  // who may know the function.
  http::Response no_response(const std::string& why) const {
    return plain_failure(
        502, id_,
        call_.is_anonymous ? "" : "what the handler returned is no HTTP response: " + why);
  }

  void send(http::Response response) {
    if (is_gone_) return;
    add_own(response.headers);
    call_.responder.send(std::move(response));
    drop();
  }

  http::Response failure_of(const Result<InvocationResult>& ended) const {
    const bool refused = !ended.ok() || ended->outcome == Outcome::kRejected;
    http::Response response = call_.answer_of(ended);
    if (refused && !call_.is_anonymous) return response;
    http::Response plain = plain_failure(response.status, id_);
    if (const auto later = response.headers.get("Retry-After"); !later.empty()) {
      plain.headers.add("Retry-After", std::string(later));
    }
    if (refused && response.headers.contains(http::kNotBegun)) {
      plain.headers.add(std::string(http::kNotBegun), "true");
    }
    return plain;
  }

 private:
  bool pass(std::string_view bytes) {
    if (!started_) {
      stream_ = call_.responder.answer_stream();
      if (stream_ == nullptr) return false;
      started_ = true;
      http::Response head = std::move(head_->response());
      add_own(head.headers);
      stream_->on_room([self = weak_from_this()] {
        if (const auto answer = self.lock()) answer->go_on();
      });
      stream_->start(std::move(head), std::nullopt);
    }
    return stream_->send_bytes(bytes);
  }

  // To be called as often as there is room; the session takes it back once it ends.
  void go_on() {
    const auto room = room_;
    if (room) room();
  }

  void add_own(http::Headers& headers) const {
    http::put_ours(call_.answer_headers, headers);
    headers.set("x-amzn-RequestId", to_string(id_));
    headers.set("X-Lambent-Invocation-Id", to_string(id_));
  }

  // The responder's callbacks hold this.
  void drop() {
    is_gone_ = true;
    stream_ = nullptr;
    http::Responder over = std::move(call_.responder);
  }

  const InvocationId id_;
  http::RelayCall call_;
  const bool streams_;
  std::optional<StreamedHead> head_;  // of an answer that streams
  std::string body_;
  http::StreamedExchange* stream_ = nullptr;
  std::function<void()> room_;
  bool started_ = false;
  bool is_gone_ = false;
  bool is_malformed_ = false;
  std::string why_malformed_;
};

}  // namespace

struct HandlerFrontend::Pending {
  explicit Pending(http::RelayCall its_call) : call(std::move(its_call)) {}

  http::RelayCall call;
  EventRequest event;
  FunctionName function;
  std::string trace_id;  // as the caller sent it, before the event has ours
  InvokeMode mode = InvokeMode::kBuffered;
};

void HandlerFrontend::handle(http::RelayCall call, const FunctionSpec& spec) {
  // It may end before the body is there.
  if (uses_.takes_work && !uses_.takes_work()) {
    return call.responder.send(call.answer_of(stopping_error(false)));
  }
  http::Request head = std::exchange(call.head, {});
  http::Responder responder = std::move(call.responder);
  auto pending = std::make_shared<Pending>(std::move(call));
  pending->function = spec.name;
  pending->mode = spec.url.invoke_mode;
  pending->event.function = function_of(spec.name).name;
  pending->event.id = new_invocation_id(uses_.random);
  pending->event.time = uses_.loop.clock().wall_now();
  pending->trace_id = http::trace_id_of(head.headers);
  http::set_trace_context(head.headers, pending->trace_id, pending->event.id);
  if (pending->call.is_signed) {
    pending->event.request = std::move(head);
    pending->call.responder = std::move(responder);
    return make_event(std::move(pending));
  }
  // As it came: what the program gets says nothing of how the body is sent.
  if (pending->call.has_body && !head.headers.contains("Content-Length")) {
    head.headers.add("Transfer-Encoding", "chunked");
  }
  uses_.bodies.collect(
      std::move(head), std::move(responder),
      [pending](const Error& error) { return pending->call.answer_of(error); },
      [this, pending](http::Request request, http::Responder answering) {
        request.headers = http::end_to_end(request.headers);
        pending->event.request = std::move(request);
        pending->call.responder = std::move(answering);
        make_event(pending);
      });
}

void HandlerFrontend::make_event(std::shared_ptr<Pending> pending) {
  auto event = std::make_shared<std::string>();
  const bool began = compute(
      uses_.offload, pending->event.request.body.size(),
      [pending, event] { *event = event_of(pending->event); },
      [this, pending, event] { invoke(pending, std::move(*event)); });
  if (began) return;
  http::Responder responder = std::move(pending->call.responder);
  responder.send(pending->call.answer_of(overloaded()));
}

void HandlerFrontend::invoke(const std::shared_ptr<Pending>& pending, std::string event) {
  InvocationRequest request;
  request.id = pending->event.id;
  request.function = pending->function;
  request.trace_id = pending->trace_id;
  request.payload = std::move(event);
  auto answer = std::make_shared<UrlAnswer>(request.id, std::move(pending->call), pending->mode);
  answer->listen(uses_.relays);
  uses_.relays.invoke(
      {.request = std::move(request),
       .sink = answer,
       .done = [this, answer, id = pending->event.id](Result<InvocationResult> ended) {
         const bool is_whole =
             ended.ok() && ended->outcome == Outcome::kSucceeded && !answer->streamed();
         if (!is_whole) return answer->finish(ended);
         auto payload = std::make_shared<std::string>(std::move(ended->payload));
         auto response = std::make_shared<Result<http::Response>>(http::Response());
         const bool began = compute(
             uses_.offload, payload->size(),
             [payload, response] { *response = response_of_result(*payload); },
             [answer, response] {
               answer->send(response->ok() ? **std::move(response)
                                           : answer->no_response(response->error().message));
             });
         if (!began) answer->send(plain_failure(503, id));
       }});
}

}  // namespace lambent::frontend
