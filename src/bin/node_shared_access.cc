#include "bin/node_shared_access.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "bin/shared_access_copy.h"
#include "core/base/fd.h"
#include "core/base/json_text.h"
#include "edge/frontend/access_frontend.h"

namespace lambent {
namespace {

constexpr size_t kMostCopy = 256 * 1024 * 1024;

// For a catalog that does not have it. Each node has the default tenant, with settings of its own.
catalog::SharedTenant shared_tenant(const tenants::AccessControl& access, const std::string& name) {
  const auto tenant = access.find_tenant(name);
  if (!tenant.ok() || tenant->id == kDefaultTenant) return {name, "{}"};
  return {name, json_text(frontend::tenant_settings(*tenant))};
}

void drop_token(catalog::SharedAccess& there, const std::string& id) {
  std::erase_if(there.tokens, [&](const auto& each) { return each.token.id == id; });
}

void drop_secret(catalog::SharedAccess& there, const std::string& tenant, const std::string& name) {
  std::erase_if(there.secrets, [&](const catalog::SharedSecret& each) {
    return each.tenant == tenant && each.name == name;
  });
}

}  // namespace

NodeSharedAccess::NodeSharedAccess(catalog::SharedCatalog& shared, SharedAccessKeys keys,
                                   std::string file, LogSink& log)
    : shared_(shared),
      keys_(std::move(keys)),
      file_(std::move(file)),
      log_(log),
      self_(std::make_shared<NodeSharedAccess*>(this)) {}

NodeSharedAccess::~NodeSharedAccess() { *self_ = nullptr; }

void NodeSharedAccess::connect(tenants::AccessControl& access, tenants::SecretStore& secrets,
                               objects::Disk disk) {
  access_ = &access;
  secrets_ = &secrets;
  disk_ = std::move(disk);
  access.share_tokens(this, keys_.signing);
  secrets.share(this, keys_.secrets);
  const auto copy = read_file(file_, kMostCopy);
  if (copy.ok()) there_ = read_shared_access_text(*copy);
  apply();
}

void NodeSharedAccess::look(std::function<void()> then) {
  if (access_ == nullptr) return then();
  shared_.read_access(known_, [self = self_, then = std::move(then)](auto read) {
    if (*self == nullptr) return;
    (*self)->took(std::move(read));
    then();
  });
}

void NodeSharedAccess::took(Result<std::optional<catalog::SharedAccess>> read) {
  if (read.ok()) access_->retry_revocations();
  const bool is_new = read.ok() && read->has_value();
  if (is_new) {
    there_ = **std::move(read);
    known_ = there_.version;
    save();
  }
  if (is_new || incomplete_) apply();
}

void NodeSharedAccess::apply() {
  const size_t left =
      access_->take_shared_tokens(there_.tokens) + secrets_->take_shared(there_.secrets);
  incomplete_ = left > 0;
}

void NodeSharedAccess::save() {
  const auto outcome = std::make_shared<Result<void>>();
  const bool queued = disk_(
      [outcome, file = file_, text = text_of_shared_access(there_)] {
        *outcome = write_file_atomically(file, text, false);
      },
      [self = self_, outcome] {
        if (*self == nullptr || outcome->ok()) return;
        (*self)->log_.warning("shared_access_not_written",
                              {{"error", to_string(outcome->error())}});
      });
  // With the next look.
  if (!queued) known_ = UINT64_MAX;
}

// What was agreed on counts at once, before it is read again: else a token that was revoked would
// come back as long as the catalog cannot be read, and one that was made would go.
NodeSharedAccess::Agreed NodeSharedAccess::noting(
    std::function<void(catalog::SharedAccess&)> change, Agreed done) {
  return [self = self_, change = std::move(change),
          done = std::move(done)](const Result<void>& agreed) {
    if (agreed.ok() && *self != nullptr) {
      change((*self)->there_);
      (*self)->save();
    }
    done(agreed);
  };
}

void NodeSharedAccess::put_token(const catalog::TokenRecord& record,
                                 std::function<void(Result<void>)> done) {
  const std::string tenant = name_of(record.token.tenant);
  const catalog::SharedToken token{
      .tenant = tenant, .token = record.token, .secret_sha256 = record.secret_sha256};
  // What was read meanwhile may have it already.
  const auto add = [token](catalog::SharedAccess& there) {
    drop_token(there, token.token.id);
    there.tokens.push_back(token);
  };
  shared_.put_token(token, shared_tenant(*access_, tenant), noting(add, std::move(done)));
}

void NodeSharedAccess::remove_token(const std::string& id, std::function<void(Result<void>)> done) {
  const auto drop = [id](catalog::SharedAccess& there) { drop_token(there, id); };
  shared_.remove_token(id, noting(drop, std::move(done)));
}

std::string NodeSharedAccess::name_of(TenantId tenant) const {
  return access_->tenant_name(tenant);
}

Result<TenantId> NodeSharedAccess::tenant_of(const std::string& name) const {
  ASSIGN_OR_RETURN(const Tenant tenant, access_->find_tenant(name));
  return tenant.id;
}

void NodeSharedAccess::put_secret(const catalog::SharedSecret& secret,
                                  std::function<void(Result<void>)> done) {
  const auto put = [secret](catalog::SharedAccess& there) {
    drop_secret(there, secret.tenant, secret.name);
    there.secrets.push_back(secret);
  };
  shared_.put_secret(secret, shared_tenant(*access_, secret.tenant), noting(put, std::move(done)));
}

void NodeSharedAccess::remove_secret(const std::string& tenant, const std::string& name,
                                     std::function<void(Result<void>)> done) {
  const auto drop = [tenant, name](catalog::SharedAccess& there) {
    drop_secret(there, tenant, name);
  };
  shared_.remove_secret(tenant, name, noting(drop, std::move(done)));
}

}  // namespace lambent
