// SecretStore: the tenants' secrets: sealed in the catalog or in the one that the nodes of a
// cluster share, and in memory; opened for what starts functions. Owned by the worker's main; on
// the loop thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "core/domain/secret.h"
#include "node/catalog/catalog.h"
#include "node/catalog/shared_access_tables.h"

namespace lambent::tenants {

// What the store asks and tells the worker; any may be empty.
struct SecretUsers {
  // The names of functions that refer to it.
  std::function<std::vector<std::string>(TenantId, const std::string& secret)> functions;
  // Calls `renewed` once they no longer run with the value before.
  std::function<void(TenantId, const std::string& secret, std::function<void()> renewed)> changed;
};

// What all nodes of a cluster agree on before one of them changes a secret. Loop thread.
class SharedSecrets {
 public:
  virtual ~SharedSecrets() = default;
  // The tenant's name, by which all know it.
  virtual std::string name_of(TenantId tenant) const = 0;
  // NOT_FOUND.
  virtual Result<TenantId> tenant_of(const std::string& name) const = 0;
  // UNAVAILABLE: what they share cannot be reached.
  virtual void put_secret(const catalog::SharedSecret& secret,
                          std::function<void(Result<void>)> done) = 0;
  virtual void remove_secret(const std::string& tenant, const std::string& name,
                             std::function<void(Result<void>)> done) = 0;
};

class SecretStore final : public SecretService {
 public:
  // The catalog and the clock outlive it; the catalog's completions may come after it is gone.
  SecretStore(catalog::Catalog& catalog, const Clock& clock, const std::string& node_key,
              const std::vector<catalog::SecretRecord>& records);
  void set_users(SecretUsers users) { users_ = std::move(users); }

  // From now on secrets that are kept are those of all nodes, sealed with a key that all have. It
  // outlives this.
  void share(SharedSecrets* shared, std::string key);
  // The secrets that all nodes have now. How many are of tenants that are not known here: to be
  // taken again once these are.
  size_t take_shared(const std::vector<catalog::SharedSecret>& secrets);

  void put_secret(TenantId tenant, std::string name, std::string value,
                  Callback<SecretStatus> done) override;
  void remove_secret(TenantId tenant, const std::string& name,
                     Callback<SecretStatus> done) override;
  std::vector<SecretStatus> list_secrets(TenantId tenant) const override;
  // Nothing also of one that does not open: the node's key was changed.
  std::optional<std::string> find_secret(TenantId tenant, const std::string& name) const override;
  // How many do not open: the node's key is another than when they were kept.
  size_t unreadable() const;
  // The tenant is gone, and what it kept.
  void forget_tenant(TenantId tenant);

 private:
  struct Entry {
    std::string sealed;
    Duration changed_at{};
    bool is_shared = false;

    bool operator==(const Entry&) const = default;
  };
  using Key = std::pair<TenantId, std::string>;

  Result<std::string> opened(const Key& key, const Entry& entry) const;
  void put_shared(TenantId tenant, const std::string& name, const std::string& value,
                  Callback<SecretStatus> done);
  void adopt(const Key& key, const Entry& entry);
  void kept(const Key& key, const Entry& entry, const Callback<SecretStatus>& done);
  Result<void> check(TenantId tenant, const std::string& name, const std::string& value) const;

  catalog::Catalog& catalog_;
  const Clock& clock_;
  const std::string key_;  // derived from the node's
  SharedSecrets* shared_ = nullptr;
  std::string shared_key_;
  SecretUsers users_;
  std::map<Key, Entry> secrets_;
  // What completions hold weakly.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::tenants
