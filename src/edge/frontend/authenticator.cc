#include "edge/frontend/authenticator.h"

#include <algorithm>
#include <utility>

#include "edge/frontend/sigv4.h"

namespace lambent::frontend {
namespace {

constexpr std::string_view kBearer = "Bearer ";
// What the ids of our tokens begin with; without tokens every AWS client signs with something else.
constexpr std::string_view kOurKeys = "LAMB";

std::string_view authorization_of(const http::Request& request) {
  return request.headers.get("authorization");
}

bool is_bearer(std::string_view authorization) {
  return authorization.size() >= kBearer.size() &&
         http::same_name(authorization.substr(0, kBearer.size()), kBearer);
}

Refusal unknown_token(Error error) { return {std::move(error), "UnrecognizedClientException"}; }

Refusal no_credentials(std::string message) {
  return {{ErrorCode::kUnauthenticated, std::move(message)}, "MissingAuthenticationTokenException"};
}

// As tokens name them.
std::vector<std::string> names_of(const http::PeerCertificate& certificate) {
  std::vector<std::string> names;
  const auto add = [&](std::string_view kind, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      // A name that no token can have is no name of one.
      auto name = certificate_name_from(std::string(kind) + text);
      if (name.ok()) names.push_back(*std::move(name));
    }
  };
  add("email:", certificate.emails);
  add("uri:", certificate.uris);
  add("dns:", certificate.dns_names);
  return names;
}

bool has_several(const http::Request& request) {
  const auto& fields = request.headers.fields();
  return std::count_if(fields.begin(), fields.end(), [](const auto& field) {
           return http::same_name(field.first, "authorization");
         }) > 1;
}

}  // namespace

Authenticator::Authenticator(const AccessService& access, const Clock& clock, AuthOptions options)
    : access_(access), clock_(clock), options_(options) {}

bool Authenticator::needs_body_digest(const http::Request& request) const {
  const auto signature = parse_sigv4(authorization_of(request));
  if (!signature.ok() || !signature->has_value()) return false;
  // No digest is computed of what was signed with an unknown key.
  return access_.find_signer((*signature)->access_key_id).ok();
}

std::variant<Principal, Refusal> Authenticator::authenticate(const http::Request& request,
                                                             const std::string& body_digest) const {
  const std::string_view authorization = authorization_of(request);
  if (has_several(request)) return no_credentials("the request has several Authorization headers");
  if (authorization.empty()) return without_authorization(request);
  if (is_bearer(authorization)) {
    auto principal = access_.authenticate(authorization.substr(kBearer.size()));
    if (!principal.ok()) return unknown_token(principal.error());
    return *principal;
  }
  if (authorization.starts_with(kSigV4Scheme)) return by_signature(request, body_digest);
  return no_credentials(
      "the Authorization header has another scheme than Bearer and AWS4-HMAC-SHA256");
}

std::variant<Principal, Refusal> Authenticator::by_signature(const http::Request& request,
                                                             const std::string& body_digest) const {
  const auto signature = parse_sigv4(authorization_of(request));
  if (!signature.ok()) {
    return Refusal{{ErrorCode::kUnauthenticated, signature.error().message},
                   "IncompleteSignatureException"};
  }
  if (!signature->has_value())
    return no_credentials("the Authorization header has no known scheme");
  const bool is_ours = (*signature)->access_key_id.starts_with(kOurKeys);
  if (options_.mode == AuthMode::kNone && !is_ours) return without_authorization(request);
  const auto signer = access_.find_signer((*signature)->access_key_id);
  if (!signer.ok()) return unknown_token(signer.error());
  const auto verified =
      verify_sigv4(request, **signature, signer->signing_secret, body_digest, clock_.wall_now());
  if (!verified.ok()) return Refusal{verified.error(), "InvalidSignatureException"};
  return signer->principal;
}

std::variant<Principal, Refusal> Authenticator::without_authorization(
    const http::Request& request) const {
  if (!request.peer.certificate) return by_origin(request);
  auto principal = access_.authenticate_certificate(names_of(*request.peer.certificate));
  if (!principal.ok()) return unknown_token(principal.error());
  if (!*principal) return by_origin(request);
  return **std::move(principal);
}

std::variant<Principal, Refusal> Authenticator::by_origin(const http::Request& request) const {
  const auto& user = request.peer.user;
  const bool is_trusted =
      options_.mode == AuthMode::kNone || (request.peer.transport == http::Transport::kUnix &&
                                           user && (*user == 0 || *user == options_.own_user));
  if (is_trusted) {
    return Principal{.tenant = kDefaultTenant, .scopes = Scopes::all(), .token = ""};
  }
  return no_credentials(
      "this worker wants a token: send 'Authorization: Bearer TOKEN', or sign with its access key; "
      "an operator makes one with 'lambent tokens create'");
}

}  // namespace lambent::frontend
