// NodeSharedAccess: the tokens and secrets that this node has together with the others of its
// cluster. Changes are agreed on in the shared catalog first; what others change is looked for each
// second; a copy in a file lets the node start without the catalog. Made by main; loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/base/log.h"
#include "node/catalog/shared_catalog.h"
#include "node/objects/spill_folder.h"
#include "node/tenants/access_control.h"
#include "node/tenants/secret_store.h"

namespace lambent {

// Derived from the key that all nodes have.
struct SharedAccessKeys {
  std::string secrets;  // with which secrets are sealed
  std::string signing;  // from which signing secrets of tokens are derived
};

class NodeSharedAccess final : public tenants::SharedTokens, public tenants::SharedSecrets {
 public:
  // `file`: of the copy. What is passed by reference outlives it.
  NodeSharedAccess(catalog::SharedCatalog& shared, SharedAccessKeys keys, std::string file,
                   LogSink& log);
  ~NodeSharedAccess() override;

  // Takes what the copy has; blocks. `disk` writes it from then on.
  void connect(tenants::AccessControl& access, tenants::SecretStore& secrets, objects::Disk disk);
  // Takes what others changed, then calls back, also if the catalog cannot be reached.
  void look(std::function<void()> then);

  // tenants::SharedTokens.
  void put_token(const catalog::TokenRecord& record,
                 std::function<void(Result<void>)> done) override;
  void remove_token(const std::string& id, std::function<void(Result<void>)> done) override;
  // tenants::SharedSecrets.
  std::string name_of(TenantId tenant) const override;
  Result<TenantId> tenant_of(const std::string& name) const override;
  void put_secret(const catalog::SharedSecret& secret,
                  std::function<void(Result<void>)> done) override;
  void remove_secret(const std::string& tenant, const std::string& name,
                     std::function<void(Result<void>)> done) override;

 private:
  using Agreed = std::function<void(Result<void>)>;

  Agreed noting(std::function<void(catalog::SharedAccess&)> change, Agreed done);
  void took(Result<std::optional<catalog::SharedAccess>> read);
  void apply();
  void save();

  catalog::SharedCatalog& shared_;
  const SharedAccessKeys keys_;
  const std::string file_;
  LogSink& log_;
  tenants::AccessControl* access_ = nullptr;
  tenants::SecretStore* secrets_ = nullptr;
  objects::Disk disk_;
  catalog::SharedAccess there_;  // as it was read last, with what this node changed since
  uint64_t known_ = UINT64_MAX;  // its version
  bool incomplete_ = false;      // some is of tenants that are not known here yet
  // Points to this until it ends. Shared with callbacks.
  std::shared_ptr<NodeSharedAccess*> self_;
};

}  // namespace lambent
