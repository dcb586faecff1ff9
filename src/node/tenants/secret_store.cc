#include "node/tenants/secret_store.h"

#include <algorithm>

#include "core/crypto/crypto.h"
#include "core/domain/limits.h"

namespace lambent::tenants {
namespace {

constexpr size_t kMostNamed = 3;  // functions, in an error

// A sealed value opens as this secret of this tenant only.
std::string context_of(TenantId tenant, const std::string& name) {
  return "secret " + std::to_string(tenant.value) + " " + name;
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
    secrets_[{record.tenant, record.name}] = {record.sealed, record.changed_at};
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
  Entry entry{crypto::seal(key_, value, context_of(tenant, name)), clock_.wall_now()};
  catalog_.put_secret(
      {.tenant = tenant, .name = name, .sealed = entry.sealed, .changed_at = entry.changed_at},
      [this, alive = std::weak_ptr(alive_), tenant, name, entry,
       done = std::move(done)](Result<void> kept) {
        if (!kept.ok()) return done(kept.error());
        const SecretStatus status{name, entry.changed_at};
        if (alive.expired()) return done(status);
        secrets_[{tenant, name}] = entry;
        if (!users_.changed) return done(status);
        users_.changed(tenant, name, [done, status] { done(status); });
      });
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
  catalog_.remove_secret(tenant, name,
                         [this, alive = std::weak_ptr(alive_), tenant, status,
                          done = std::move(done)](Result<void> removed) {
                           if (!removed.ok()) return done(removed.error());
                           if (!alive.expired()) secrets_.erase({tenant, status.name});
                           done(status);
                         });
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
  auto value = crypto::open(key_, found->second.sealed, context_of(tenant, name));
  if (!value.ok()) return std::nullopt;
  return *std::move(value);
}

size_t SecretStore::unreadable() const {
  return static_cast<size_t>(std::count_if(secrets_.begin(), secrets_.end(), [&](const auto& each) {
    return !crypto::open(key_, each.second.sealed, context_of(each.first.first, each.first.second))
                .ok();
  }));
}

void SecretStore::forget_tenant(TenantId tenant) {
  std::erase_if(secrets_, [&](const auto& each) { return each.first.first == tenant; });
}

}  // namespace lambent::tenants
