// FunctionVersions: publishes, lists and removes versions, changes aliases, and goes back to
// earlier revisions. Used by the worker on the loop thread.
#pragma once

#include <optional>
#include <string>

#include "core/domain/version_copies.h"
#include "core/domain/version_service.h"
#include "node/worker/aliases.h"
#include "node/worker/deployments.h"
#include "node/worker/shared_functions.h"
#include "node/worker/worker_status.h"

namespace lambent::worker {

class FunctionVersions final : public VersionService, public VersionCopies {
 public:
  // All outlive it; the constructor uses none.
  struct Dependencies {
    catalog::Catalog& catalog;
    FunctionRegistry& functions;
    Aliases& aliases;
    Revisions& revisions;
    Deployments& deployments;
    const WorkerStatus& status;
    CodeStore& code;
    const CudaPackages& cuda_packages;
    SharedFunctions* shared = nullptr;  // null: versions are this node's own
  };

  explicit FunctionVersions(Dependencies dependencies) : uses_(dependencies) {}

  Result<FunctionSpec> find_qualified(const FunctionName& name) const override;
  std::string warning(const FunctionSpec& spec) const override {
    return uses_.cuda_packages.warning(spec);
  }
  void publish(Publication publication, Callback<FunctionSpec> done) override;
  Result<std::vector<FunctionSpec>> list_versions(const FunctionName& function) const override;
  void remove_version(const FunctionName& function, uint64_t version,
                      Callback<FunctionSpec> done) override;
  void create_alias(Alias alias, Callback<Alias> done) override;
  void update_alias(Alias alias, Callback<Alias> done) override;
  void remove_alias(const FunctionName& function, const std::string& alias,
                    Callback<Alias> done) override;
  Result<Alias> find_alias(const FunctionName& function, const std::string& alias) const override;
  Result<std::vector<Alias>> list_aliases(const FunctionName& function) const override;
  void provision(const FunctionName& qualified, unsigned instances, Callback<void> done) override;
  InstanceReport instances(const FunctionName& record) const override;
  void code_parts(const FunctionName& name, Callback<CodeParts> done) override;
  Result<std::vector<Revision>> list_revisions(const FunctionName& function) const override;
  void read_revisions(const FunctionName& function,
                      Callback<std::vector<Revision>> done) const override;
  void roll_back(const FunctionName& function, std::optional<uint64_t> revision,
                 Callback<FunctionSpec> done) override;

  void copy_version(FunctionChange change, Callback<FunctionSpec> done) override;
  void copy_alias(Alias alias, Callback<void> done) override;
  void forget_alias(const FunctionName& function, const std::string& alias,
                    Callback<void> done) override;
  void renumber(const FunctionName& function, uint64_t revision, Duration deployed_at,
                Callback<void> done) override;

 private:
  void put_updated(Alias alias, Callback<Alias> done);
  // Gives versions as many instances as the aliases ask for, one after the other; those that had
  // theirs from `before` or are of `after` only. The first error ends it.
  void fit_instances(const Alias& before, const Alias& after, Callback<void> done);
  void set_instances(const FunctionName& record, unsigned instances, Callback<void> done);
  // What all aliases of its function ask for, `alias` being as it is given.
  unsigned wanted(const Alias& alias, const std::string& version) const;

  // Valid by itself, and its versions are there.
  Result<void> check(const Alias& alias) const;
  // `before`: as it was; nothing of a new one.
  void put(const Alias& alias, const std::optional<Alias>& before, Callback<Alias> done);
  void keep(const Alias& alias, Callback<Alias> done);
  // Of code that this node does not have, it brings what the nodes share.
  void deploy_again(FunctionSpec earlier, Callback<FunctionSpec> done);

  const Dependencies uses_;
};

}  // namespace lambent::worker
