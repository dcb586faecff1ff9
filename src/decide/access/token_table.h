// TokenTable: the tokens of a node, and whether what a request carries is one of them. Pure; owned
// by node/tenants, on the loop thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/crypto/crypto.h"
#include "core/domain/access.h"

namespace lambent::access {

// "lambent_" ID "_" SECRET, where the ID has no '_'.
struct BearerToken {
  std::string_view id;
  std::string_view secret;
};
constexpr std::string_view kBearerPrefix = "lambent_";
std::string bearer_token(std::string_view id, std::string_view secret);
// Nothing if it has another form.
std::optional<BearerToken> parse_bearer_token(std::string_view text);

class TokenTable {
 public:
  // Of a token for a certificate the digest is not looked at.
  void add(Token token, crypto::Digest secret_digest);
  void remove(const std::string& id);
  void remove_of(TenantId tenant);

  const Token* find(const std::string& id) const;
  // In order of creation.
  std::vector<Token> list(TenantId tenant) const;
  size_t count(TenantId tenant) const;
  // Of how many tenants there are tokens.
  size_t tenants() const { return by_tenant_.size(); }

  // `now` since the Unix epoch. UNAUTHENTICATED: one message for every token that is not known or
  // has another secret, and as much work for each; another if it has expired.
  Result<Principal> authenticate(std::string_view bearer_token, Duration now) const;
  // The principal of a token whose secret was proved in another way; the errors are the same.
  Result<Principal> principal_of(std::string_view id, Duration now) const;
  // Of a client certificate with these alternative names. Nothing if none of them has a token.
  // UNAUTHENTICATED if they have several tokens, or one that has expired.
  Result<std::optional<Principal>> principal_of_certificate(const std::vector<std::string>& names,
                                                            Duration now) const;
  bool has_certificate(const std::string& name) const { return by_certificate_.contains(name); }

 private:
  struct Entry {
    Token token;
    crypto::Digest secret_digest;
  };

  // Null if the id is not known or its token has no secret.
  const Entry* entry_with_secret(std::string_view id) const;

  std::map<std::string, Entry, std::less<>> entries_;
  std::map<std::string, std::string, std::less<>> by_certificate_;  // name to id
  std::map<TenantId, std::set<std::string>> by_tenant_;             // ids
};

}  // namespace lambent::access
