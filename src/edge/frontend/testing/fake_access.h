// An AccessService in memory for the frontend's tests: tokens are "TENANT:SCOPES", of which the
// test says the principals. Included by tests only; one thread.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/domain/access_service.h"

namespace lambent::frontend {

class FakeAccess final : public AccessService {
 public:
  FakeAccess() { add_tenant(kDefaultTenant, kDefaultTenantName); }

  std::map<std::string, Tenant> tenants;
  std::map<std::string, Principal, std::less<>> bearers;
  std::map<std::string, Signer, std::less<>> signers;
  std::map<std::string, Principal, std::less<>> certificates;
  std::vector<Token> tokens;
  std::optional<Duration> refuse_rate;

  Tenant& add_tenant(TenantId id, const std::string& name) {
    Tenant tenant;
    tenant.id = id;
    tenant.name = name;
    return tenants[name] = tenant;
  }

  void create_tenant(Tenant tenant, Callback<Tenant> done) override {
    if (tenants.contains(tenant.name)) {
      return done(Error{ErrorCode::kAlreadyExists, "there is a tenant of that name"});
    }
    tenant.id = TenantId(static_cast<uint32_t>(tenants.size() + 1));
    tenants[tenant.name] = tenant;
    done(tenant);
  }
  void update_tenant(Tenant tenant, Callback<Tenant> done) override {
    tenants[tenant.name] = tenant;
    done(tenant);
  }
  void remove_tenant(const std::string& name, Callback<Tenant> done) override {
    auto found = find_tenant(name);
    if (found.ok()) tenants.erase(name);
    done(std::move(found));
  }
  Result<Tenant> find_tenant(const std::string& name) const override {
    const auto found = tenants.find(name);
    if (found == tenants.end()) {
      return Error{ErrorCode::kNotFound, "there is no tenant '" + name + "'"};
    }
    return found->second;
  }
  std::string tenant_name(TenantId tenant) const override {
    for (const auto& [name, each] : tenants) {
      if (each.id == tenant) return name;
    }
    return {};
  }
  std::vector<Tenant> list_tenants(const std::string& after, size_t limit) const override {
    std::vector<Tenant> page;
    for (auto next = tenants.upper_bound(after); next != tenants.end() && page.size() < limit;
         ++next) {
      page.push_back(next->second);
    }
    return page;
  }

  void create_token(TokenRequest request, Callback<IssuedToken> done) override {
    IssuedToken issued;
    issued.token = {.id = "LAMB" + std::to_string(tokens.size()),
                    .tenant = request.tenant,
                    .name = request.name,
                    .scopes = request.scopes,
                    .created_at = seconds(10),
                    .expires_at = std::nullopt,
                    .certificate = request.certificate};
    if (request.lifetime) issued.token.expires_at = issued.token.created_at + *request.lifetime;
    if (request.certificate.empty()) {
      issued.secret = "lambent_secret";
      issued.signing_secret = "signing";
    }
    tokens.push_back(issued.token);
    done(issued);
  }
  void revoke_token(TenantId tenant, const std::string& id, Callback<Token> done) override {
    for (auto each = tokens.begin(); each != tokens.end(); ++each) {
      if (each->tenant != tenant || each->id != id) continue;
      const Token token = *each;
      tokens.erase(each);
      return done(token);
    }
    done(Error{ErrorCode::kNotFound, "the tenant has no token " + id});
  }
  std::vector<Token> list_tokens(TenantId tenant) const override {
    std::vector<Token> listed;
    for (const Token& token : tokens) {
      if (token.tenant == tenant) listed.push_back(token);
    }
    return listed;
  }

  Result<Principal> authenticate(std::string_view bearer_token) const override {
    const auto found = bearers.find(bearer_token);
    if (found == bearers.end()) return not_valid();
    return found->second;
  }
  Result<std::optional<Principal>> authenticate_certificate(
      const std::vector<std::string>& names) const override {
    for (const std::string& name : names) {
      const auto found = certificates.find(name);
      if (found != certificates.end()) return std::optional(found->second);
    }
    return std::optional<Principal>();
  }
  Result<Signer> find_signer(std::string_view token_id) const override {
    const auto found = signers.find(token_id);
    if (found == signers.end()) return not_valid();
    return found->second;
  }
  Admission admit_request(TenantId) override {
    if (!refuse_rate) return {};
    return {.refusal = Error{ErrorCode::kResourceExhausted, "too many requests"},
            .retry_after = *refuse_rate};
  }

 private:
  static Error not_valid() { return {ErrorCode::kUnauthenticated, "the token is not valid"}; }
};

}  // namespace lambent::frontend
