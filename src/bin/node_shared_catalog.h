// NodeSharedCatalog: this node and the catalog that its cluster has in PostgreSQL: changes of
// functions and tenants are agreed on there first, this node's copies come from there, and
// asynchronous invocations of nodes that are lost are taken over. Made by main, before the worker;
// loop thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bin/node_shared_access.h"
#include "bin/worker_config.h"
#include "core/base/fault_points.h"
#include "core/base/log.h"
#include "core/domain/access_service.h"
#include "core/domain/cluster.h"
#include "core/http/message.h"
#include "core/loop/event_loop.h"
#include "decide/asynchronous/take_over.h"
#include "node/catalog/shared_catalog.h"
#include "node/tenants/access_control.h"
#include "node/worker/shared_functions.h"
#include "node/worker/worker.h"

namespace lambent {

class NodeSharedCatalog final : public worker::SharedFunctions, public tenants::SharedTenants {
 public:
  // Null without --catalog. Blocks. INVALID_ARGUMENT, what says that --cluster-key cannot be read,
  // and as SharedCatalog::open().
  static Result<std::unique_ptr<NodeSharedCatalog>> open(const WorkerConfig& config,
                                                         loop::EventLoop& loop, LogSink& log,
                                                         FaultPoints* faults);
  ~NodeSharedCatalog() override;

  struct Others {
    std::function<bool(const std::string& node)> is_lost;  // whether it does not answer
    std::function<bool()> is_home;                         // whether this node is the first one
    // Told of each function of this node that all have agreed on, before who changed it is.
    std::function<void(const std::string& tenant, const std::string& name)> agreed;
    // As OtherMembers::taker_of().
    std::function<std::optional<std::string>(const std::string& tenant, const FunctionName&)>
        taker_of;
    // Whether the cluster has a function of that name, whatever this node has of it.
    std::function<bool(const std::string& tenant, const std::string& name)> is_there;
    std::string self;  // what this node is called
  };
  // All outlive it.
  void connect(catalog::Catalog& catalog, worker::Worker& worker, tenants::AccessControl& access,
               Others others);

  // Tokens and secrets; before functions start.
  NodeSharedAccess& access() { return *shared_access_; }

  // What a home answers to nodes that copy its catalog.
  void ask(const std::string& target, std::function<void(Result<http::Response>)> done);

  // worker::SharedFunctions.
  void put(const FunctionSpec& spec, const FunctionSpec* before,
           std::function<void(Result<Deployed>)> done) override;
  void list_revisions(const FunctionName& function,
                      std::function<void(Result<std::vector<Revision>>)> done) override;
  void read_code(const std::string& code_sha256,
                 std::function<void(Result<std::string>)> done) override;
  void remove(const FunctionSpec& spec, Done done) override;
  void publish(const Publication& publication, std::function<void(Result<uint64_t>)> done) override;
  void put_alias(const Alias& alias, const Alias* before, Done done) override;
  void remove_alias(const Alias& alias, Done done) override;
  // tenants::SharedTenants.
  void put_tenant(const Tenant& tenant, Done done) override;
  void remove_tenant(const std::string& name, Done done) override;

  bool reachable() const { return unreachable_.empty(); }
  // Why it was not reached last; empty: it was.
  const std::string& unreachable() const { return unreachable_; }

 private:
  NodeSharedCatalog(std::string packages, loop::EventLoop& loop, LogSink& log);

  void read_contents(uint64_t known, std::function<void(Result<http::Response>)> done);
  // The versions and aliases that the first node had before others knew of them.
  void bring_versions();
  catalog::BroughtVersions versions_here() const;
  Done agreed_on(const std::string& tenant, const std::string& name, Done done);

  void look();
  void claim(const std::vector<std::string>& owners);
  void claim_of(const std::vector<std::string>& lost,
                const std::vector<catalog::TenantFunction>& functions);
  // The look has ended, well or not.
  void looked() { is_looking_ = false; }
  asynchronous::Copy copy_of(const std::string& tenant, const FunctionName& function) const;
  asynchronous::Prospect prospect_of(const catalog::TenantFunction& function) const;
  void claimed(Result<std::vector<catalog::SharedInvocation>> claimed);
  void resume(catalog::SharedInvocation invocation);
  void give(catalog::SharedInvocation invocation, const std::string& node);
  void note(bool reached, const std::string& why);
  // What the database's clock says now; nothing: it was not heard yet.
  std::optional<Duration> time() const;
  void ask_time();

  loop::EventLoop& loop_;
  LogSink& log_;
  const std::function<std::string(const std::string& sha256)> package_file_;
  std::unique_ptr<catalog::SharedCatalog> shared_;
  std::unique_ptr<NodeSharedAccess> shared_access_;
  worker::Worker* worker_ = nullptr;
  tenants::AccessControl* access_ = nullptr;
  Others others_;
  std::string unreachable_;
  std::optional<catalog::SharedCatalog::SharedTime> time_;
  // What was given away to be copied, by tenant and function: its digest.
  std::map<std::pair<std::string, std::string>, std::string> given_;
  // As they were read last: their settings. Nothing: they were not read yet.
  std::optional<std::map<std::string, std::string>> tenants_;
  asynchronous::TakeOver take_over_;
  bool is_looking_ = false;  // at what lost nodes have
  // That the catalog did not take back or give away: it is tried again.
  std::vector<catalog::SharedInvocation> not_given_;
  bool versions_are_brought_ = false;
  loop::TimerId timer_;
  // Points to this until it ends. Shared with callbacks.
  std::shared_ptr<NodeSharedCatalog*> self_;
};

}  // namespace lambent
