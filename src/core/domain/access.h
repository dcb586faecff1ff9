// Who may do what: scopes, tokens and the principal of a request. Values; made by AccessService,
// read by frontends on any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"

namespace lambent {

enum class Scope : uint8_t {
  kAdmin,   // the node: tenants, tokens, devices; and everything below, for every tenant
  kDeploy,  // create, change and remove functions and secrets
  kInvoke,  // run functions, read their results, keep objects
  kRead,    // list functions; read logs, traces and metrics
};
constexpr Scope kScopes[] = {Scope::kAdmin, Scope::kDeploy, Scope::kInvoke, Scope::kRead};
std::string_view name_of(Scope scope);  // "admin", "deploy", "invoke", "read"
std::optional<Scope> scope_from(std::string_view name);

class Scopes {
 public:
  constexpr Scopes() = default;
  constexpr Scopes(std::initializer_list<Scope> scopes) {
    for (const Scope scope : scopes) add(scope);
  }
  static constexpr Scopes all() {
    return {Scope::kAdmin, Scope::kDeploy, Scope::kInvoke, Scope::kRead};
  }

  constexpr void add(Scope scope) { bits_ |= 1U << static_cast<unsigned>(scope); }
  constexpr bool has(Scope scope) const {
    return (bits_ & (1U << static_cast<unsigned>(scope))) != 0;
  }
  constexpr bool overlaps(Scopes other) const { return (bits_ & other.bits_) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  bool operator==(const Scopes&) const = default;

 private:
  uint32_t bits_ = 0;
};

// "deploy,invoke", in the order of kScopes. And back: INVALID_ARGUMENT, naming the word, if one is
// no scope or there is none.
std::string to_string(Scopes scopes);
Result<Scopes> scopes_from(std::string_view text);

// On whose behalf a request is made.
struct Principal {
  TenantId tenant;
  Scopes scopes;
  // The token's id; empty: the request came without one and was trusted for its origin.
  std::string token;

  bool operator==(const Principal&) const = default;
};

// The alternative name of a client certificate as text: "email:alice@team.example",
// "uri:spiffe://team.example/ci", "dns:gpu2.example" (in lower case). INVALID_ARGUMENT if it is of
// no such form.
Result<std::string> certificate_name_from(std::string_view text);

// What is known of a token beside its secret, which is shown once and kept as a digest only.
struct Token {
  std::string id;  // 20 characters, the access key id of AWS clients
  TenantId tenant;
  std::string name;  // for people
  Scopes scopes;
  Duration created_at{};               // since the Unix epoch
  std::optional<Duration> expires_at;  // likewise; none: never
  // Who shows a client certificate with this alternative name has the token; it has no secret then.
  // Empty: who knows its secret.
  std::string certificate;

  bool operator==(const Token&) const = default;
};

// A token as its owner gets it, once. Of one for a certificate there are no secrets.
struct IssuedToken {
  Token token;
  std::string secret;  // "lambent_ID_...": after "Authorization: Bearer"
  // With the token's id as the access key id: what AWS clients sign with.
  std::string signing_secret;
};

}  // namespace lambent
