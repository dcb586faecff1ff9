// Authenticator: whose request it is: by a bearer token, by AWS Signature Version 4, by the client
// certificate of its connection, or by where it comes from. Asked once for every request, after the
// guard, before any route. On the loop thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "core/base/time.h"
#include "core/domain/access_service.h"
#include "core/http/message.h"

namespace lambent::frontend {

enum class AuthMode {
  kNone,    // who has no token may do everything, as the default tenant
  kTokens,  // only who connects to the Unix socket as root or as the worker's own user may
};

struct AuthOptions {
  AuthMode mode = AuthMode::kNone;
  uint32_t own_user = 0;
};

// A refusal as both APIs need it.
struct Refusal {
  Error error;
  std::string_view lambda_type;  // "InvalidSignatureException"
};

class Authenticator {
 public:
  // Both outlive it.
  Authenticator(const AccessService& access, const Clock& clock, AuthOptions options);

  // Whether authenticate() will look at the body, whose digest takes long if it is large.
  bool needs_body_digest(const http::Request& request) const;
  // `body_digest`: SHA-256 in hexadecimal digits; empty if it is not needed.
  std::variant<Principal, Refusal> authenticate(const http::Request& request,
                                                const std::string& body_digest) const;

 private:
  std::variant<Principal, Refusal> by_signature(const http::Request& request,
                                                const std::string& body_digest) const;
  std::variant<Principal, Refusal> without_authorization(const http::Request& request) const;
  std::variant<Principal, Refusal> by_origin(const http::Request& request) const;

  const AccessService& access_;
  const Clock& clock_;
  const AuthOptions options_;
};

}  // namespace lambent::frontend
