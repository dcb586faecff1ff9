#include "node/worker/http_relays.h"

#include <utility>

#include "core/domain/model_function.h"
#include "core/http/trace_context.h"
#include "node/http_relay/limits.h"

namespace lambent::worker {
void HttpRelays::relay(http::RelayCall call) {
  auto meant = call.is_inference
                   ? resolve_model(call.function, call.model_version, uses_.random.uniform(),
                                   uses_.functions, uses_.aliases)
                   : resolved(call.function);
  if (!meant.ok() && !call.model_version.empty() && !call.is_anonymous &&
      uses_.functions.find(call.function) != nullptr) {
    return call.responder.send(call.answer_of(meant.error()));
  }
  if (meant.ok()) call.function = std::move(meant).value();
  if (call.is_inference) tell_versions(call);
  // One that is not there, or not yet, is refused as an invocation of it is.
  const FunctionSpec* spec = uses_.functions.find(call.function);
  const std::string& name = call.function.name;
  if (call.is_anonymous && (spec == nullptr || spec->url.auth != UrlAuth::kNone)) {
    return call.responder.send(
        call.answer_of(Error{ErrorCode::kUnauthenticated,
                             "this function wants a token: send 'Authorization: "
                             "Bearer TOKEN'"}));
  }
  if (spec != nullptr && spec->kind == FunctionKind::kHandler && call.to_handler) {
    const auto to_handler = std::move(call.to_handler);
    return to_handler(std::move(call), *spec);
  }
  if (spec != nullptr && spec->kind == FunctionKind::kKernel && call.to_kernels) {
    const auto to_kernels = std::move(call.to_kernels);
    return to_kernels(std::move(call), *spec);
  }
  if (call.is_signed && (spec == nullptr || spec->kind == FunctionKind::kHttp)) {
    return call.responder.send(call.answer_of(
        Error{ErrorCode::kUnauthenticated,
              "requests to HTTP functions stream, so that no signature covers their bodies: send "
              "'Authorization: Bearer TOKEN'"}));
  }
  if (spec != nullptr && spec->kind != FunctionKind::kHttp) {
    return call.responder.send(call.answer_of(Error{
        ErrorCode::kFailedPrecondition, "'" + name + "' is a " + std::string(name_of(spec->kind)) +
                                            " function, which does not answer here: "
                                            "invoke it"}));
  }
  if (live_.size() >= limits::kRelayedRequests) {
    return call.responder.send(call.answer_of(
        Error{ErrorCode::kUnavailable, "too many requests to HTTP functions at once; try again"}));
  }
  InvocationRequest request;
  request.id = new_invocation_id(uses_.random);
  request.function = call.function;
  const InvocationId id = request.id;
  request.trace_id = http::trace_id_of(call.head.headers);
  http::set_trace_context(call.head.headers, request.trace_id, id);
  call.answer_headers.add("X-Lambent-Invocation-Id", to_string(id));
  auto relayed =
      std::make_shared<http_relay::RelayedRequest>(std::move(call.head), std::move(call.responder));
  relayed->has_body = call.has_body;
  relayed->upgrade = std::move(call.upgrade);
  relayed->answer_headers = std::move(call.answer_headers);
  relayed->responder.on_disconnect([this, id] { client_gone(id); });
  live_[id] = std::move(relayed);
  uses_.submit(std::move(request),
               [this, id, answer_of = std::move(call.answer_of)](Result<InvocationResult> result) {
                 ended(id, answer_of, std::move(result));
               });
}

Result<FunctionName> HttpRelays::resolved(const FunctionName& name) const {
  return resolve(name, uses_.random.uniform(), uses_.functions, uses_.aliases);
}

void HttpRelays::tell_versions(http::RelayCall& call) const {
  const auto versions = uses_.functions.versions(function_of(call.function));
  if (versions.empty()) return;
  call.head.headers.set(std::string(kModelVersionsHeader), model_versions(versions));
}

void HttpRelays::invoke(http::HandlerCall call) {
  if (call.elements > 0) {
    const FunctionSpec* spec = uses_.functions.find(call.request.function);
    if (spec != nullptr) return uses_.submit_kernel(*spec, std::move(call));
  }
  const InvocationId id = call.request.id;
  sinks_[id] = std::move(call.sink);
  uses_.submit(std::move(call.request),
               [this, id, done = std::move(call.done)](Result<InvocationResult> result) {
                 sinks_.erase(id);
                 done(std::move(result));
               });
}

bool HttpRelays::is_open(const FunctionName& name) const {
  const auto meant = resolved(name);
  const FunctionSpec* spec = uses_.functions.find(meant.ok() ? *meant : name);
  return spec != nullptr && spec->url.auth == UrlAuth::kNone;
}

std::string HttpRelays::cors_of(const FunctionName& name) const {
  const auto meant = resolved(name);
  const FunctionSpec* spec = uses_.functions.find(meant.ok() ? *meant : name);
  return spec == nullptr ? std::string() : spec->url.cors;
}

std::shared_ptr<http::AnswerSink> HttpRelays::sink_of(InvocationId id) const {
  const auto found = sinks_.find(id);
  return found == sinks_.end() ? nullptr : found->second;
}

std::shared_ptr<http_relay::RelayedRequest> HttpRelays::find(InvocationId id) const {
  const auto found = live_.find(id);
  return found == live_.end() ? nullptr : found->second;
}

void HttpRelays::ended(InvocationId id, const AnswerOf& answer_of,
                       Result<InvocationResult> result) {
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  const auto relayed = std::move(found->second);
  live_.erase(found);
  // A session that has it still drops what comes of it.
  if (const auto gone = std::exchange(relayed->on_client_gone, nullptr)) gone();
  if (!relayed->answered && !relayed->client_is_gone) {
    relayed->answered = true;
    http::Response response = answer_of(std::move(result));
    for (const auto& [name, value] : relayed->answer_headers.fields()) {
      response.headers.add(name, value);
    }
    relayed->responder.send(std::move(response));
  } else if (!relayed->client_is_gone) {
    // Of an answer that is whole, nothing is left to cut off.
    relayed->responder = http::Responder(nullptr);
  }
}

void HttpRelays::client_gone(InvocationId id) {
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  const auto relayed = found->second;
  relayed->client_is_gone = true;
  if (const auto gone = std::exchange(relayed->on_client_gone, nullptr)) return gone();
  uses_.forget(id);
}

}  // namespace lambent::worker
