#include "decide/access/token_table.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

namespace lambent::access {
namespace {

Error not_valid() { return {ErrorCode::kUnauthenticated, "the token is not valid"}; }

bool has_expired(const Token& token, Duration now) {
  return token.expires_at && *token.expires_at <= now;
}

Result<Principal> principal_if_unexpired(const Token& token, Duration now) {
  if (has_expired(token, now)) {
    return Error{ErrorCode::kUnauthenticated,
                 "the token '" + token.name + "' (" + token.id + ") has expired; ask for another"};
  }
  return Principal{.tenant = token.tenant, .scopes = token.scopes, .token = token.id};
}

}  // namespace

std::string bearer_token(std::string_view id, std::string_view secret) {
  return std::string(kBearerPrefix) + std::string(id) + "_" + std::string(secret);
}

std::optional<BearerToken> parse_bearer_token(std::string_view text) {
  if (!text.starts_with(kBearerPrefix)) return std::nullopt;
  text.remove_prefix(kBearerPrefix.size());
  const size_t end = text.find('_');
  if (end == std::string_view::npos) return std::nullopt;
  return BearerToken{text.substr(0, end), text.substr(end + 1)};
}

void TokenTable::add(Token token, crypto::Digest secret_digest) {
  std::string id = token.id;
  remove(id);
  by_tenant_[token.tenant].insert(id);
  if (!token.certificate.empty()) by_certificate_.insert_or_assign(token.certificate, id);
  entries_.insert_or_assign(std::move(id), Entry{std::move(token), secret_digest});
}

void TokenTable::remove(const std::string& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  const Token& token = found->second.token;
  const auto certificate = by_certificate_.find(token.certificate);
  if (certificate != by_certificate_.end() && certificate->second == id) {
    by_certificate_.erase(certificate);
  }
  const auto of_tenant = by_tenant_.find(token.tenant);
  of_tenant->second.erase(id);
  if (of_tenant->second.empty()) by_tenant_.erase(of_tenant);
  entries_.erase(found);
}

void TokenTable::remove_of(TenantId tenant) {
  for (const Token& token : list(tenant)) remove(token.id);
}

const Token* TokenTable::find(const std::string& id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second.token;
}

std::vector<Token> TokenTable::list(TenantId tenant) const {
  std::vector<Token> tokens;
  const auto of_tenant = by_tenant_.find(tenant);
  if (of_tenant == by_tenant_.end()) return tokens;
  for (const std::string& id : of_tenant->second) tokens.push_back(entries_.at(id).token);
  std::sort(tokens.begin(), tokens.end(), [](const Token& a, const Token& b) {
    return std::tie(a.created_at, a.id) < std::tie(b.created_at, b.id);
  });
  return tokens;
}

size_t TokenTable::count(TenantId tenant) const {
  const auto of_tenant = by_tenant_.find(tenant);
  return of_tenant == by_tenant_.end() ? 0 : of_tenant->second.size();
}

Result<Principal> TokenTable::authenticate(std::string_view text, Duration now) const {
  const BearerToken token = parse_bearer_token(text).value_or(BearerToken{});
  const crypto::Digest digest = crypto::sha256(token.secret);
  const Entry* found = entry_with_secret(token.id);
  // An unknown id is compared too, with what no secret has as its digest.
  const crypto::Digest expected = found == nullptr ? crypto::Digest{} : found->secret_digest;
  const bool is_right =
      crypto::equal_in_constant_time(crypto::bytes_of(digest), crypto::bytes_of(expected));
  if (found == nullptr || !is_right) return not_valid();
  return principal_if_unexpired(found->token, now);
}

Result<Principal> TokenTable::principal_of(std::string_view id, Duration now) const {
  const Entry* found = entry_with_secret(id);
  if (found == nullptr) return not_valid();
  return principal_if_unexpired(found->token, now);
}

const TokenTable::Entry* TokenTable::entry_with_secret(std::string_view id) const {
  const auto found = entries_.find(id);
  if (found == entries_.end() || !found->second.token.certificate.empty()) return nullptr;
  return &found->second;
}

Result<std::optional<Principal>> TokenTable::principal_of_certificate(
    const std::vector<std::string>& names, Duration now) const {
  const Token* token = nullptr;
  for (const std::string& name : names) {
    const auto found = by_certificate_.find(name);
    if (found == by_certificate_.end() || (token != nullptr && token->id == found->second))
      continue;
    if (token != nullptr) {
      return Error{ErrorCode::kUnauthenticated,
                   "the client certificate has the names of two tokens, " + token->certificate +
                       " and " + name + "; send a token's secret instead, or revoke one of them"};
    }
    token = find(found->second);
  }
  if (token == nullptr) return std::optional<Principal>();
  ASSIGN_OR_RETURN(Principal principal, principal_if_unexpired(*token, now));
  return std::optional(std::move(principal));
}

}  // namespace lambent::access
