#include "node/tenants/secret_store.h"

#include <algorithm>
#include <set>

#include "core/crypto/crypto.h"
#include "core/domain/limits.h"
#include "node/tenants/limits.h"

namespace lambent::tenants {
namespace {

constexpr size_t kMostNamed = 3;  // functions, in an error

// A sealed value opens as this secret of this tenant only.
std::string context_of(TenantId tenant, const std::string& name) {
  return "secret " + std::to_string(tenant.value) + " " + name;
}

std::string shared_context_of(const std::string& tenant, const std::string& name) {
  return "shared secret " + tenant + " " + name;
}

Error in_use(const std::string& name, const std::vector<std::string>& functions) {
  std::string list;
  for (size_t i = 0; i < std::min(functions.size(), kMostNamed); ++i) {
    list += (i == 0 ? "" : ", ") + functions[i];
  }
  if (functions.size() > kMostNamed) list += " and others";
  return {ErrorCode::kFailedPrecondition,
          "secret '" + name + "' is used by " + list + "; change or remove them first"};
}

}  // namespace

SecretStore::SecretStore(catalog::Catalog& catalog, const Clock& clock, const std::string& node_key,
                         const std::vector<catalog::SecretRecord>& records)
    : catalog_(catalog),
      clock_(clock),
      key_(crypto::bytes_of(crypto::hmac_sha256(node_key, "key of secrets"))) {
  for (const catalog::SecretRecord& record : records) {
    secrets_[{record.tenant, record.name}] = {record.sealed, record.changed_at, false};
  }
}

Result<void> SecretStore::check(TenantId tenant, const std::string& name,
                                const std::string& value) const {
  RETURN_IF_ERROR(validate_secret_name(name));
  if (Bytes(value.size()) > limits::kSecretValue) {
    return Error{ErrorCode::kOutOfRange, "a secret has at most " + to_string(limits::kSecretValue)};
  }
  if (secrets_.contains({tenant, name})) return {};
  if (list_secrets(tenant).size() >= limits::kSecretsPerTenant) {
    return Error{ErrorCode::kResourceExhausted,
                 "a tenant has at most " + std::to_string(limits::kSecretsPerTenant) + " secrets"};
  }
  return {};
}

void SecretStore::put_secret(TenantId tenant, std::string name, std::string value,
                             Callback<SecretStatus> done) {
  if (const auto good = check(tenant, name, value); !good.ok()) return done(good.error());
  if (shared_ != nullptr) return put_shared(tenant, name, value, std::move(done));
  const Entry entry{crypto::seal(key_, value, context_of(tenant, name)), clock_.wall_now()};
  catalog_.put_secret(
      {.tenant = tenant, .name = name, .sealed = entry.sealed, .changed_at = entry.changed_at},
      [this, alive = std::weak_ptr(alive_), key = Key{tenant, name}, entry,
       done = std::move(done)](const Result<void>& stored) {
        if (!stored.ok()) return done(stored.error());
        if (alive.expired()) return done(SecretStatus{key.second, entry.changed_at});
        kept(key, entry, done);
      });
}

void SecretStore::put_shared(TenantId tenant, const std::string& name, const std::string& value,
                             Callback<SecretStatus> done) {
  const std::string owner = shared_->name_of(tenant);
  const Entry entry{crypto::seal(shared_key_, value, shared_context_of(owner, name)),
                    clock_.wall_now(), true};
  shared_->put_secret({owner, name, entry.sealed, entry.changed_at},
                      [this, alive = std::weak_ptr(alive_), key = Key{tenant, name}, entry,
                       done = std::move(done)](const Result<void>& agreed) {
                        if (!agreed.ok()) return done(agreed.error());
                        if (alive.expired())
                          return done(SecretStatus{key.second, entry.changed_at});
                        kept(key, entry, done);
                      });
}

// One that was only this node's gives way to that of all.
void SecretStore::adopt(const Key& key, const Entry& entry) {
  const auto found = secrets_.find(key);
  if (found != secrets_.end() && !found->second.is_shared && entry.is_shared) {
    catalog_.remove_secret(key.first, key.second, [](Result<void>) {});
  }
  secrets_[key] = entry;
}

void SecretStore::kept(const Key& key, const Entry& entry, const Callback<SecretStatus>& done) {
  adopt(key, entry);
  const SecretStatus status{key.second, entry.changed_at};
  if (!users_.changed) return done(status);
  users_.changed(key.first, key.second, [done, status] { done(status); });
}

void SecretStore::share(SharedSecrets* shared, std::string key) {
  shared_ = shared;
  shared_key_ = std::move(key);
}

size_t SecretStore::take_shared(const std::vector<catalog::SharedSecret>& secrets) {
  size_t without_tenant = 0;
  std::set<Key> there;
  for (const catalog::SharedSecret& secret : secrets) {
    const auto tenant = shared_->tenant_of(secret.tenant);
    if (!tenant.ok()) {
      ++without_tenant;
      continue;
    }
    const Key key{*tenant, secret.name};
    const Entry entry{secret.sealed, secret.changed_at, true};
    there.insert(key);
    const auto found = secrets_.find(key);
    if (found != secrets_.end() && found->second == entry) continue;
    adopt(key, entry);
    if (users_.changed) users_.changed(key.first, key.second, [] {});
  }
  std::erase_if(secrets_, [&](const auto& each) {
    return each.second.is_shared && !there.contains(each.first);
  });
  return without_tenant;
}

void SecretStore::remove_secret(TenantId tenant, const std::string& name,
                                Callback<SecretStatus> done) {
  const auto found = secrets_.find({tenant, name});
  if (found == secrets_.end()) {
    return done(Error{ErrorCode::kNotFound, "there is no secret '" + name + "'"});
  }
  if (users_.functions) {
    const auto functions = users_.functions(tenant, name);
    if (!functions.empty()) return done(in_use(name, functions));
  }
  const SecretStatus status{name, found->second.changed_at};
  const auto removed = [this, alive = std::weak_ptr(alive_), tenant, status,
                        done = std::move(done)](const Result<void>& gone) {
    if (!gone.ok()) return done(gone.error());
    if (!alive.expired()) secrets_.erase({tenant, status.name});
    done(status);
  };
  if (found->second.is_shared) {
    return shared_->remove_secret(shared_->name_of(tenant), name, removed);
  }
  catalog_.remove_secret(tenant, name, removed);
}

std::vector<SecretStatus> SecretStore::list_secrets(TenantId tenant) const {
  std::vector<SecretStatus> listed;
  for (auto each = secrets_.lower_bound({tenant, ""});
       each != secrets_.end() && each->first.first == tenant; ++each) {
    listed.push_back({each->first.second, each->second.changed_at});
  }
  return listed;
}

std::optional<std::string> SecretStore::find_secret(TenantId tenant,
                                                    const std::string& name) const {
  const auto found = secrets_.find({tenant, name});
  if (found == secrets_.end()) return std::nullopt;
  auto value = opened(found->first, found->second);
  if (!value.ok()) return std::nullopt;
  return *std::move(value);
}

Result<std::string> SecretStore::opened(const Key& key, const Entry& entry) const {
  if (!entry.is_shared) return crypto::open(key_, entry.sealed, context_of(key.first, key.second));
  return crypto::open(shared_key_, entry.sealed,
                      shared_context_of(shared_->name_of(key.first), key.second));
}

size_t SecretStore::unreadable() const {
  return static_cast<size_t>(std::count_if(secrets_.begin(), secrets_.end(), [&](const auto& each) {
    return !opened(each.first, each.second).ok();
  }));
}

void SecretStore::forget_tenant(TenantId tenant) {
  std::erase_if(secrets_, [&](const auto& each) { return each.first.first == tenant; });
}

}  // namespace lambent::tenants
