#include "edge/frontend/function_frontend.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/json_text.h"
#include "core/domain/model_function.h"
#include "core/http/forward_words.h"
#include "core/http/hop_by_hop.h"
#include "edge/frontend/cross_origin.h"
#include "edge/frontend/inference_frontend.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/native_error.h"
#include "edge/frontend/openai_call.h"
#include "edge/frontend/outcome_headers.h"

namespace lambent::frontend {
namespace {

constexpr std::string_view kOwnAuthorization = "X-Lambent-Authorization";

// A page that a function answers with under a path has the origin of the worker's own API. In a
// sandbox it has an origin of its own instead, so that its scripts may not use the API.
constexpr std::string_view kPageSandbox =
    "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts";

// Fields that are between the client and this worker.
bool is_ours(std::string_view name) {
  return http::same_name(name, "Expect") || http::same_name(name, "X-Lambent-Tenant") ||
         http::same_name(name, kOwnAuthorization) || http::same_name(name, "Authorization") ||
         http::same_name(name, kModelVersionsHeader) || http::same_name(name, kServingFunction);
}

bool is_of_body(std::string_view name) {
  return http::same_name(name, "Content-Length") || http::same_name(name, "Content-Type") ||
         http::same_name(name, "Content-Encoding");
}

// Programs whose interface turns names into variables (CGI, WSGI) take X_Forwarded_For for
// X-Forwarded-For, which is ours to say.
bool is_disguised(std::string_view name) {
  if (name.find('_') == std::string_view::npos) return false;
  std::string plain(name);
  std::replace(plain.begin(), plain.end(), '_', '-');
  for (const std::string_view ours : {"X-Forwarded-", "X-Lambent-"}) {
    if (http::same_name(std::string_view(plain).substr(0, ours.size()), ours)) return true;
  }
  return is_of_body(plain) || http::same_name(plain, "Transfer-Encoding");
}

std::string without_port(const std::string& address) {
  const size_t colon = address.rfind(':');
  return colon == std::string::npos ? address : address.substr(0, colon);
}

void add_to_list(http::Headers& headers, std::string_view name, const std::string& value) {
  std::string list;
  for (const auto& [each, text] : headers.fields()) {
    if (http::same_name(each, name) && !text.empty()) list += (list.empty() ? "" : ", ") + text;
  }
  headers.set(name, list.empty() ? value : list + ", " + value);
}

// As a node of RFC 7239: an IPv6 address is quoted.
std::string forwarded_node(const std::string& address) {
  if (address.empty()) return "unknown";
  return address.find(':') == std::string::npos ? address : "\"" + address + "\"";
}

http::Headers headers_for_program(const http::Request& request, const ClientView& client) {
  http::Headers headers;
  const http::Headers passed_on = http::end_to_end(request.headers);
  for (const auto& [name, value] : passed_on.fields()) {
    if (!is_ours(name) && !is_disguised(name)) headers.add(name, value);
  }
  if (const auto passed = request.headers.get(kOwnAuthorization); !passed.empty()) {
    headers.add("Authorization", std::string(passed));
  }
  const std::string address = without_port(request.peer.address);
  std::string bare = address;
  if (bare.starts_with('[') && bare.ends_with(']')) bare = bare.substr(1, bare.size() - 2);
  if (!bare.empty()) add_to_list(headers, "X-Forwarded-For", bare);
  headers.set("X-Forwarded-Proto", client.protocol);
  if (!client.host.empty()) headers.set("X-Forwarded-Host", client.host);
  if (!client.prefix.empty()) headers.set("X-Forwarded-Prefix", client.prefix);
  add_to_list(headers, "Forwarded",
              "for=" + forwarded_node(address) +
                  (client.host.empty() ? "" : ";host=\"" + client.host + "\"") +
                  ";proto=" + client.protocol);
  if (request.headers.get("Host").empty()) headers.set("Host", "localhost");
  return headers;
}

// Of what failed without an error of the worker's, the function was at fault.
ErrorCode code_of(const InvocationResult& result) {
  if (result.error) return result.error->code;
  return result.outcome == Outcome::kRejected ? ErrorCode::kInternal : ErrorCode::kUnknown;
}

int status_of(const InvocationResult& result) {
  const ErrorCode code = code_of(result);
  if (result.outcome == Outcome::kRejected) {
    const bool is_gateways = code == ErrorCode::kResourceExhausted ||
                             code == ErrorCode::kDeadlineExceeded ||
                             code == ErrorCode::kUnavailable || code == ErrorCode::kAborted;
    return is_gateways ? 503 : http_status_of(code);
  }
  return code == ErrorCode::kDeadlineExceeded ? 504 : 502;
}

// Of what failed without an error of the worker's, Lambda's JSON has the words.
std::string message_of(const InvocationResult& result) {
  if (result.error) return result.error->message;
  const auto json = nlohmann::json::parse(result.payload, nullptr, false);
  if (json.is_object() && json.contains("errorMessage") && json["errorMessage"].is_string()) {
    return json["errorMessage"];
  }
  return "the program gave no answer";
}

http::Response error_of(Protocol protocol, const Error& error) {
  return protocol == Protocol::kOpenai ? openai_error(error) : inference_error(error);
}

// As clients of a protocol read it.
http::Response protocol_answer_of(Protocol protocol, const Result<InvocationResult>& ended,
                                  const std::string& function) {
  if (!ended.ok()) return error_of(protocol, ended.error());
  std::string message = message_of(*ended);
  if (ended->outcome != Outcome::kRejected) message += " (its log: lambent logs " + function + ")";
  const int status = status_of(*ended);
  http::Response response = protocol == Protocol::kOpenai ? openai_error(status, message)
                                                          : inference_error(status, message);
  if (response.status == 503) add_retry_after(response.headers, ended->retry_after);
  if (ended->error) http::tell_not_begun(response.headers, ended->error->code, message);
  return response;
}

std::string hint_of(const InvocationResult& result, const std::string& function) {
  const std::string log = "its log: lambent logs " + function;
  const bool wrote = result.log_tail.find("Read-only file system") != std::string::npos;
  return wrote ? "its folder is read-only, /tmp is not; " + log : log;
}

http::Response answer_of(Result<InvocationResult> ended, const std::string& function,
                         bool with_log) {
  if (!ended.ok()) return refusal_of(ended.error());
  const InvocationResult& result = *ended;
  http::Response response;
  response.status = status_of(result);
  response.headers.add("Content-Type", "application/json");
  if (response.status == 503) add_retry_after(response.headers, result.retry_after);
  const ErrorCode code = code_of(result);
  http::tell_not_begun(response.headers, code, message_of(result));
  nlohmann::json error{{"code", name_of(code)}, {"message", message_of(result)}};
  if (!result.error_type.empty()) error["type"] = result.error_type;
  nlohmann::json body{{"error", error}};
  if (result.outcome != Outcome::kRejected) {
    body["hint"] = hint_of(result, function);
  }
  if (with_log && !result.log_tail.empty()) body["log"] = result.log_tail;
  response.body = json_text(body);
  return response;
}

// For a client of which nothing is known: it says nothing of the function or of this worker.
http::Response plain_answer_of(const http::Response& full) {
  http::Response plain;
  plain.status = full.status;
  plain.headers.add("Content-Type", "application/json");
  if (const auto later = full.headers.get("Retry-After"); !later.empty()) {
    plain.headers.add("Retry-After", std::string(later));
  }
  if (full.headers.contains(http::kNotBegun))
    plain.headers.add(std::string(http::kNotBegun), "true");
  plain.body = json_text(nlohmann::json{
      {"message", full.status >= 500 ? "the function gave no answer" : "the request was refused"}});
  return plain;
}

}  // namespace

http::Response refusal_of(const Error& error) {
  http::Response response = error_response(error);
  // As servers say it, and Lambda: a body that is too large.
  if (error.code == ErrorCode::kOutOfRange) response.status = 413;
  return response;
}

void separate_authorizations(http::Request& request, bool wants_token) {
  const bool has_own = request.headers.contains(kOwnAuthorization);
  std::string passed;
  if (has_own || !wants_token) {
    passed = request.headers.get("Authorization");
    const std::string own(request.headers.get(kOwnAuthorization));
    const auto several = std::count_if(
        request.headers.fields().begin(), request.headers.fields().end(),
        [](const auto& field) { return http::same_name(field.first, kOwnAuthorization); });
    request.headers.set("Authorization", own);
    // As several of the other: refused.
    if (several > 1) request.headers.add("Authorization", own);
  }
  // A header that the client did not send is none that its signature could cover.
  if (has_own || !passed.empty()) request.headers.set(kOwnAuthorization, passed);
}

void FunctionFrontend::handle(const Caller& caller, const FunctionTarget& target,
                              http::Request request, http::Responder responder,
                              RequestProof proof) {
  http::RelayCall call{.function = {caller.tenant, target.name},
                       .head = {},
                       .answer_headers = {},
                       .responder = std::move(responder),
                       .answer_of = {}};
  call.is_signed = proof.is_signed;
  call.is_anonymous = proof.is_anonymous;
  call.is_inference = target.protocol == Protocol::kInference;
  call.model_version = target.model_version;
  const bool is_whole = proof.is_signed || !request.body.empty();
  call.has_body = !is_whole && (request.headers.contains("Transfer-Encoding") ||
                                (request.headers.contains("Content-Length") &&
                                 request.headers.get("Content-Length") != "0"));
  call.upgrade = http::upgrade_of(request.headers);
  call.head.method = request.method;
  call.head.target = target.target;
  const ClientView client = client_view(request, target.prefix, proxies_);
  call.head.headers = headers_for_program(request, client);
  call.head.peer = request.peer;
  call.head.peer.address = client.address;
  call.head.body = std::move(request.body);
  const bool has_protocol = target.protocol != Protocol::kNone;
  if (!target.prefix.empty() || has_protocol) {
    call.answer_headers.add("Content-Security-Policy", std::string(kPageSandbox));
  }
  if (const std::string text = relays_.cors_of(call.function); !text.empty()) {
    const auto cors = parse_cors(text);
    const auto headers = cors.ok() ? cross_origin_headers(*cors, request) : http::Headers();
    for (const auto& [name, value] : headers.fields()) call.answer_headers.add(name, value);
  }
  const bool with_log =
      !proof.is_anonymous && http::same_name(request.headers.get("X-Amz-Log-Type"), "Tail");
  call.answer_of = [name = target.name, with_log, is_anonymous = proof.is_anonymous,
                    protocol = target.protocol](Result<InvocationResult> result) {
    if (protocol != Protocol::kNone) return protocol_answer_of(protocol, result, name);
    http::Response answer = answer_of(std::move(result), name, with_log);
    return is_anonymous ? plain_answer_of(answer) : answer;
  };
  if (target.protocol == Protocol::kInference) {
    call.to_kernels = [this](http::RelayCall its, const FunctionSpec& spec) {
      models_.handle(std::move(its), spec);
    };
  } else if (!has_protocol) {
    call.to_handler = [this](http::RelayCall its, const FunctionSpec& spec) {
      handlers_.handle(std::move(its), spec);
    };
  }
  relays_.relay(std::move(call));
}

}  // namespace lambent::frontend
