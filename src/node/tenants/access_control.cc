#include "node/tenants/access_control.h"

#include <algorithm>
#include <utility>

#include "core/base/base64.h"
#include "core/crypto/crypto.h"
#include "core/domain/limits.h"
#include "node/tenants/limits.h"

namespace lambent::tenants {
namespace {

constexpr size_t kIdBytes = 10;
constexpr size_t kSecretBytes = 32;
constexpr std::string_view kIdPrefix = "LAMB";

// RFC 4648's alphabet. `bytes` is a multiple of five.
std::string base32(std::string_view bytes) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  std::string text;
  uint64_t bits = 0;
  unsigned count = 0;
  for (const char c : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(c);
    count += 8;
    for (; count >= 5; count -= 5) text += kAlphabet[bits >> (count - 5) & 31];
  }
  return text;
}

// The alphabet for URLs and file names, without padding.
std::string base64_for_urls(std::string_view bytes) {
  std::string text = base64_encode(bytes);
  text.resize(text.find_last_not_of('=') + 1);
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  return text;
}

Error no_tenant(const std::string& name) {
  return {ErrorCode::kNotFound, "there is no tenant '" + name + "'"};
}

Result<void> validate(const TokenRequest& request) {
  const auto is_text = [](unsigned char c) { return c >= ' ' && c != 127; };
  if (request.name.empty() || request.name.size() > limits::kTokenNameLength ||
      !std::all_of(request.name.begin(), request.name.end(), is_text)) {
    return Error{ErrorCode::kInvalidArgument, "the token's name must have 1 to " +
                                                  std::to_string(limits::kTokenNameLength) +
                                                  " bytes of text in one line"};
  }
  if (request.scopes.empty()) {
    return Error{ErrorCode::kInvalidArgument, "a token needs a scope"};
  }
  if (!request.certificate.empty()) {
    ASSIGN_OR_RETURN(const std::string name, certificate_name_from(request.certificate));
    if (name != request.certificate) {
      return Error{ErrorCode::kInvalidArgument, "the name of a host is written in lower case"};
    }
  }
  if (request.lifetime &&
      (*request.lifetime < seconds(1) || *request.lifetime > limits::kMostTokenLife)) {
    return Error{ErrorCode::kInvalidArgument, "a token lives 1 second to 10 years"};
  }
  return {};
}

}  // namespace

AccessControl::AccessControl(catalog::Catalog& catalog, const Clock& clock, std::string node_key,
                             const catalog::AccessRecords& records, TenantObserver observer)
    : catalog_(catalog),
      clock_(clock),
      node_key_(std::move(node_key)),
      observer_(std::move(observer)) {
  for (const Tenant& tenant : records.tenants) note_changed(tenant);
  for (const catalog::TokenRecord& record : records.tokens) {
    crypto::Digest digest;
    std::copy(record.secret_sha256.begin(), record.secret_sha256.end(), digest.begin());
    tokens_.add(record.token, digest);
  }
}

void AccessControl::note_changed(const Tenant& tenant) {
  tenants_.insert_or_assign(tenant.name, tenant);
  names_.insert_or_assign(tenant.id, tenant.name);
  rates_[tenant.id].set(tenant.quotas.requests_per_second, clock_.now());
  if (observer_.changed) observer_.changed(tenant);
  const auto known = shares_.find(tenant.id);
  if (known == shares_.end()) return;
  if (known->second.whole == tenant.quotas) return apply_share(tenant, known->second.share);
  shares_.erase(known);
}

void AccessControl::set_share(TenantId id, const TenantQuotas& share) {
  const auto name = names_.find(id);
  if (name == names_.end()) return;
  const Tenant& tenant = tenants_.at(name->second);
  const auto known = shares_.find(id);
  const TenantQuotas& before = known == shares_.end() ? tenant.quotas : known->second.share;
  if (before == share) return;
  shares_.insert_or_assign(id, Share{tenant.quotas, share});
  apply_share(tenant, share);
}

void AccessControl::apply_share(Tenant tenant, const TenantQuotas& share) {
  tenant.quotas = share;
  rates_[tenant.id].set(share.requests_per_second, clock_.now());
  if (observer_.shared) observer_.shared(tenant);
}

access::RequestCounts AccessControl::request_counts(TenantId tenant) const {
  const auto rate = rates_.find(tenant);
  return rate == rates_.end() ? access::RequestCounts{} : rate->second.counts();
}

void AccessControl::note_removed(const Tenant& tenant) {
  tenants_.erase(tenant.name);
  names_.erase(tenant.id);
  rates_.erase(tenant.id);
  shares_.erase(tenant.id);
  for (const Token& token : tokens_.list(tenant.id)) shared_ids_.erase(token.id);
  tokens_.remove_of(tenant.id);
  if (observer_.removed) observer_.removed(tenant.id);
}

void AccessControl::create_tenant(Tenant tenant, Callback<Tenant> done) {
  if (const auto valid = lambent::validate(tenant); !valid.ok()) return done(valid.error());
  if (tenants_.size() >= limits::kTenants) {
    return done(Error{ErrorCode::kResourceExhausted,
                      "a node has at most " + std::to_string(limits::kTenants) + " tenants"});
  }
  tenant.id = {};
  tenant.created_at = clock_.wall_now();
  put_tenant(std::move(tenant), std::move(done));
}

void AccessControl::update_tenant(Tenant tenant, Callback<Tenant> done) {
  if (const auto valid = lambent::validate(tenant); !valid.ok()) return done(valid.error());
  const auto found = tenants_.find(tenant.name);
  if (found == tenants_.end()) return done(no_tenant(tenant.name));
  tenant.id = found->second.id;
  tenant.created_at = found->second.created_at;
  put_tenant(std::move(tenant), std::move(done));
}

void AccessControl::put_tenant(Tenant tenant, Callback<Tenant> done) {
  const auto keep = [this, alive = std::weak_ptr(alive_), tenant,
                     done = std::move(done)](const Result<void>& agreed) {
    if (!agreed.ok()) return done(agreed.error());
    if (alive.expired()) return;
    catalog_.put_tenant(tenant, [this, alive, done](Result<Tenant> kept) {
      if (kept.ok() && !alive.expired()) note_changed(*kept);
      done(std::move(kept));
    });
  };
  if (shared_ == nullptr) return keep({});
  shared_->put_tenant(tenant, keep);
}

void AccessControl::remove_tenant(const std::string& name, Callback<Tenant> done) {
  const auto found = tenants_.find(name);
  if (found == tenants_.end()) return done(no_tenant(name));
  const Tenant tenant = found->second;
  if (tenant.id == kDefaultTenant) {
    return done(Error{ErrorCode::kFailedPrecondition, "the default tenant cannot be removed"});
  }
  if (shared_ == nullptr) return remove_here(tenant, std::move(done));
  shared_->remove_tenant(name, [this, alive = std::weak_ptr(alive_), tenant,
                                done = std::move(done)](const Result<void>& agreed) {
    if (!agreed.ok()) return done(agreed.error());
    if (!alive.expired()) remove_here(tenant, done);
  });
}

void AccessControl::remove_here(const Tenant& tenant, Callback<Tenant> done) {
  catalog_.remove_tenant(tenant.id, [this, alive = std::weak_ptr(alive_), tenant,
                                     done = std::move(done)](Result<void> removed) {
    if (!removed.ok()) return done(removed.error());
    if (!alive.expired()) note_removed(tenant);
    done(tenant);
  });
}

Result<Tenant> AccessControl::find_tenant(const std::string& name) const {
  const auto found = tenants_.find(name);
  if (found == tenants_.end()) return no_tenant(name);
  return found->second;
}

std::string AccessControl::tenant_name(TenantId tenant) const {
  const auto found = names_.find(tenant);
  return found == names_.end() ? std::string() : found->second;
}

std::vector<Tenant> AccessControl::list_tenants(const std::string& after, size_t limit) const {
  std::vector<Tenant> page;
  for (auto each = tenants_.upper_bound(after); each != tenants_.end() && page.size() < limit;
       ++each) {
    page.push_back(each->second);
  }
  return page;
}

std::string AccessControl::signing_secret(std::string_view token_id) const {
  const std::string& key = shared_ids_.contains(token_id) ? shared_signing_key_ : node_key_;
  const crypto::Digest derived =
      crypto::hmac_sha256(key, "signing secret of " + std::string(token_id));
  return base64_for_urls(crypto::bytes_of(derived));
}

void AccessControl::create_token(TokenRequest request, Callback<IssuedToken> done) {
  if (const auto valid = validate(request); !valid.ok()) return done(valid.error());
  if (tokens_.count(request.tenant) >= limits::kTokensPerTenant) {
    return done(Error{ErrorCode::kResourceExhausted,
                      "a tenant has at most " + std::to_string(limits::kTokensPerTenant) +
                          " tokens, expired ones included; revoke some"});
  }
  if (!request.certificate.empty() && tokens_.has_certificate(request.certificate)) {
    return done(Error{ErrorCode::kAlreadyExists,
                      "there is a token for certificates with " + request.certificate +
                          " already, of this tenant or another; revoke it first"});
  }
  // That of a token for a certificate is told to no one.
  const std::string secret = base64_for_urls(crypto::random_bytes(kSecretBytes));
  const crypto::Digest digest = crypto::sha256(secret);
  IssuedToken issued;
  issued.token = {.id = std::string(kIdPrefix) + base32(crypto::random_bytes(kIdBytes)),
                  .tenant = request.tenant,
                  .name = std::move(request.name),
                  .scopes = request.scopes,
                  .created_at = clock_.wall_now(),
                  .expires_at = std::nullopt,
                  .certificate = std::move(request.certificate)};
  if (request.lifetime) issued.token.expires_at = issued.token.created_at + *request.lifetime;
  keep_token({issued.token, std::string(crypto::bytes_of(digest))},
             [this, alive = std::weak_ptr(alive_), issued, digest, secret,
              done = std::move(done)](const Result<void>& kept) mutable {
               if (!kept.ok()) return done(kept.error());
               if (alive.expired()) return;
               tokens_.add(issued.token, digest);
               if (shared_tokens_ != nullptr) shared_ids_.insert(issued.token.id);
               if (issued.token.certificate.empty()) {
                 issued.secret = access::bearer_token(issued.token.id, secret);
                 issued.signing_secret = signing_secret(issued.token.id);
               }
               done(issued);
             });
}

void AccessControl::keep_token(const catalog::TokenRecord& record,
                               std::function<void(Result<void>)> done) {
  if (shared_tokens_ != nullptr) return shared_tokens_->put_token(record, std::move(done));
  catalog_.put_token(record, std::move(done));
}

void AccessControl::revoke_token(TenantId tenant, const std::string& id, Callback<Token> done) {
  const auto withdrawn = withdrawn_.find(id);
  const Token* found = withdrawn == withdrawn_.end() ? tokens_.find(id) : &withdrawn->second;
  if (found == nullptr || found->tenant != tenant) {
    return done(Error{ErrorCode::kNotFound, "the tenant has no token " + id});
  }
  const Token token = *found;
  if (shared_ids_.contains(id)) return revoke_for_all(token, std::move(done));
  tokens_.remove(id);
  catalog_.remove_token(id, [token, done = std::move(done)](Result<void> removed) {
    if (removed.ok()) return done(token);
    done(removed.error().with_context(
        "the token is revoked until the worker starts again, but that could not be written down"));
  });
}

// It is refused here from now on, whatever becomes of the rest.
void AccessControl::revoke_for_all(const Token& token, Callback<Token> done) {
  withdrawn_[token.id] = token;
  tokens_.remove(token.id);
  shared_tokens_->remove_token(token.id, [this, alive = std::weak_ptr(alive_), token,
                                          done = std::move(done)](Result<void> removed) {
    if (!removed.ok()) {
      return done(removed.error().with_context(
          "the token is refused here from now on, and at nodes that hear of it; it is not written "
          "down yet, which the nodes try again until they end"));
    }
    if (!alive.expired()) {
      withdrawn_.erase(token.id);
      shared_ids_.erase(token.id);
    }
    done(token);
  });
}

void AccessControl::share_tokens(SharedTokens* shared, std::string signing_key) {
  shared_tokens_ = shared;
  shared_signing_key_ = std::move(signing_key);
}

size_t AccessControl::take_shared_tokens(const std::vector<catalog::SharedToken>& tokens) {
  size_t without_tenant = 0;
  std::set<std::string, std::less<>> there;
  for (const catalog::SharedToken& shared : tokens) {
    const auto tenant = tenants_.find(shared.tenant);
    if (tenant == tenants_.end()) ++without_tenant;
    if (tenant == tenants_.end() || withdrawn_.contains(shared.token.id)) continue;
    Token token = shared.token;
    token.tenant = tenant->second.id;
    const Token* const known = tokens_.find(token.id);
    const bool is_new = known == nullptr || *known != token;
    // A name in a certificate has one token: this node's own, which was there before.
    if (is_new && !token.certificate.empty() && tokens_.has_certificate(token.certificate))
      continue;
    there.insert(token.id);
    if (!is_new) continue;
    crypto::Digest digest;
    std::copy(shared.secret_sha256.begin(), shared.secret_sha256.end(), digest.begin());
    tokens_.add(std::move(token), digest);
  }
  for (const std::string& id : shared_ids_) {
    if (!there.contains(id)) tokens_.remove(id);
  }
  // What is withdrawn is still theirs.
  for (const auto& [id, token] : withdrawn_) there.insert(id);
  shared_ids_ = std::move(there);
  return without_tenant;
}

void AccessControl::retry_revocations() {
  const auto all = withdrawn_;  // which answers change
  for (const auto& [id, token] : all) {
    shared_tokens_->remove_token(
        id, [this, alive = std::weak_ptr(alive_), id = id](Result<void> removed) {
          if (!removed.ok() || alive.expired()) return;
          withdrawn_.erase(id);
          shared_ids_.erase(id);
        });
  }
}

std::vector<std::string> AccessControl::unagreed_revocations() const {
  std::vector<std::string> ids;
  for (const auto& [id, token] : withdrawn_) ids.push_back(id);
  return ids;
}

void AccessControl::revoked_elsewhere(const std::vector<std::string>& ids) {
  for (const std::string& id : ids) {
    const Token* const found = tokens_.find(id);
    if (found == nullptr || !shared_ids_.contains(id)) continue;
    withdrawn_[id] = *found;
    tokens_.remove(id);
  }
}

std::vector<Token> AccessControl::list_tokens(TenantId tenant) const {
  return tokens_.list(tenant);
}

Result<Principal> AccessControl::authenticate(std::string_view bearer_token) const {
  return tokens_.authenticate(bearer_token, clock_.wall_now());
}

Result<std::optional<Principal>> AccessControl::authenticate_certificate(
    const std::vector<std::string>& names) const {
  return tokens_.principal_of_certificate(names, clock_.wall_now());
}

Result<AccessService::Signer> AccessControl::find_signer(std::string_view token_id) const {
  ASSIGN_OR_RETURN(Principal principal, tokens_.principal_of(token_id, clock_.wall_now()));
  return Signer{std::move(principal), signing_secret(token_id)};
}

AccessService::Admission AccessControl::admit_request(TenantId tenant) {
  const auto rate = rates_.find(tenant);
  if (rate == rates_.end()) return {};
  const auto wait = rate->second.take(clock_.now());
  if (!wait) return {};
  return {.refusal = Error{ErrorCode::kResourceExhausted,
                           "the tenant sends more than its requests_per_second"},
          .retry_after = *wait};
}

}  // namespace lambent::tenants
