// AccessControl: the tenants and tokens of this node, and those that all nodes of its cluster have:
// kept in the catalog or in the one that nodes share, looked up in memory.
// Owned by the worker's main; on the loop thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/time.h"
#include "core/domain/access_service.h"
#include "decide/access/request_rate.h"
#include "decide/access/token_table.h"
#include "node/catalog/catalog.h"
#include "node/catalog/shared_access_tables.h"

namespace lambent::tenants {

// Who is told that tenants changed; any may be empty. Called once for every tenant at start.
struct TenantObserver {
  std::function<void(const Tenant&)> changed;
  // What this node has of a tenant's quotas, where other nodes have the rest.
  std::function<void(const Tenant&)> shared = {};
  std::function<void(TenantId)> removed;
};

// What all nodes of a cluster agree on before one of them changes a tenant of its own. Loop thread.
class SharedTenants {
 public:
  virtual ~SharedTenants() = default;
  // UNAVAILABLE: what they share cannot be reached.
  virtual void put_tenant(const Tenant& tenant, std::function<void(Result<void>)> done) = 0;
  // FAILED_PRECONDITION: it has functions.
  virtual void remove_tenant(const std::string& name, std::function<void(Result<void>)> done) = 0;
};

// The same of tokens.
class SharedTokens {
 public:
  virtual ~SharedTokens() = default;
  // UNAVAILABLE; ALREADY_EXISTS: there is one for certificates with that name.
  virtual void put_token(const catalog::TokenRecord& record,
                         std::function<void(Result<void>)> done) = 0;
  virtual void remove_token(const std::string& id, std::function<void(Result<void>)> done) = 0;
};

class AccessControl final : public AccessService {
 public:
  // Tenants and tokens are those of `records`. The catalog and the clock outlive it; the catalog's
  // completions may come after it is gone.
  AccessControl(catalog::Catalog& catalog, const Clock& clock, std::string node_key,
                const catalog::AccessRecords& records, TenantObserver observer);

  // Null: tenants are this node's own. It outlives this.
  void share(SharedTenants* shared) { shared_ = shared; }

  // This node's part of the quotas that the tenant has now. It ends when these change.
  void set_share(TenantId tenant, const TenantQuotas& share);
  access::RequestCounts request_counts(TenantId tenant) const;

  // From now on tokens that are made are those of all nodes. Their signing secrets are derived from
  // a key that all nodes have. It outlives this.
  void share_tokens(SharedTokens* shared, std::string signing_key);
  // The tokens that all nodes have now. How many are of tenants that are not known here: to be
  // taken again once these are.
  size_t take_shared_tokens(const std::vector<catalog::SharedToken>& tokens);
  // Tries again to revoke for all nodes what was revoked here only.
  void retry_revocations();
  // Those that are revoked here and not yet for all, and what another node says of its own: they
  // are refused here too, and this one tries as well.
  std::vector<std::string> unagreed_revocations() const;
  void revoked_elsewhere(const std::vector<std::string>& ids);

  void create_tenant(Tenant tenant, Callback<Tenant> done) override;
  void update_tenant(Tenant tenant, Callback<Tenant> done) override;
  void remove_tenant(const std::string& name, Callback<Tenant> done) override;
  Result<Tenant> find_tenant(const std::string& name) const override;
  std::string tenant_name(TenantId tenant) const override;
  std::vector<Tenant> list_tenants(const std::string& after, size_t limit) const override;

  void create_token(TokenRequest request, Callback<IssuedToken> done) override;
  void revoke_token(TenantId tenant, const std::string& id, Callback<Token> done) override;
  std::vector<Token> list_tokens(TenantId tenant) const override;

  Result<Principal> authenticate(std::string_view bearer_token) const override;
  Result<std::optional<Principal>> authenticate_certificate(
      const std::vector<std::string>& names) const override;
  Result<Signer> find_signer(std::string_view token_id) const override;
  Admission admit_request(TenantId tenant) override;

 private:
  void put_tenant(Tenant tenant, Callback<Tenant> done);
  void remove_here(const Tenant& tenant, Callback<Tenant> done);
  void note_changed(const Tenant& tenant);
  void note_removed(const Tenant& tenant);
  void apply_share(Tenant tenant, const TenantQuotas& share);
  std::string signing_secret(std::string_view token_id) const;
  void keep_token(const catalog::TokenRecord& record, std::function<void(Result<void>)> done);
  void revoke_for_all(const Token& token, Callback<Token> done);

  catalog::Catalog& catalog_;
  const Clock& clock_;
  const std::string node_key_;
  SharedTenants* shared_ = nullptr;
  const TenantObserver observer_;
  std::map<std::string, Tenant, std::less<>> tenants_;  // by name
  std::unordered_map<TenantId, std::string> names_;
  std::unordered_map<TenantId, access::RequestRate> rates_;
  struct Share {
    TenantQuotas whole, share;
  };
  std::unordered_map<TenantId, Share> shares_;
  access::TokenTable tokens_;
  SharedTokens* shared_tokens_ = nullptr;
  std::string shared_signing_key_;
  std::set<std::string, std::less<>> shared_ids_;  // of tokens_, those that all nodes have
  // Revoked here, and not yet for all nodes.
  std::map<std::string, Token, std::less<>> withdrawn_;
  // What completions hold weakly: nothing of this is used once it is gone.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::tenants
