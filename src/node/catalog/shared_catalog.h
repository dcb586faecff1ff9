// SharedCatalog: what the nodes of a cluster keep together in PostgreSQL: functions with their
// packages, tenants with their tokens and secrets, asynchronous invocations. Each node keeps a copy
// of functions and tenants and goes on without it; changes need it. Called from the loop thread; a
// thread of its own talks to the database, and completions come through `post`.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fault_points.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "node/catalog/group_commit.h"
#include "node/catalog/shared_access_tables.h"
#include "node/catalog/shared_tables.h"

namespace lambent::catalog {

// Errors common to all: UNAVAILABLE (the database cannot be reached, or another worker has this
// node's name: nothing was changed, or it cannot be told, and trying again does no harm),
// RESOURCE_EXHAUSTED (too much waits for it).
class SharedCatalog {
 public:
  template <typename T>
  using Done = std::function<void(Result<T>)>;

  struct Options {
    std::string url;
    Owner owner;                    // this node, whose name is the lease that its session holds
    std::string key_proof;          // of the key that all nodes have; empty: it is not looked at
    FaultPoints* faults = nullptr;  // null: there are none
  };
  // The clock outlives it. FAILED_PRECONDITION: libpq is missing, a newer Lambent made the catalog,
  // or other nodes have another key; PERMISSION_DENIED. A database that cannot be reached is no
  // error: see `unreachable`.
  static Result<std::unique_ptr<SharedCatalog>> open(Options options, const Clock& clock,
                                                     GroupCommit::Post post);
  // On the database's thread: its sessions, each a connection that was made, and in which of them
  // what all nodes have was read last.
  struct Sessions {
    uint64_t now = 0;
    uint64_t of_contents = 0;
    uint64_t of_access = 0;
  };
  // Over a database that is open and has the schema; it counts its sessions in `sessions`, which
  // both share. The clock outlives it.
  SharedCatalog(std::unique_ptr<Database> database, Owner owner, const Clock& clock,
                GroupCommit::Post post, FaultPoints* faults = nullptr,
                std::shared_ptr<Sessions> sessions = std::make_shared<Sessions>());

  // Why the database was not reached when it was opened; empty: it was.
  const std::string& unreachable() const { return unreachable_; }

  // As the functions of these names in shared_tables.h and shared_access_tables.h.
  void put_function(SharedFunction function, std::optional<Expected> expected,
                    std::function<Result<std::string>()> package, Done<SharedDeployment> done);
  void read_revisions(std::string tenant, std::string function,
                      Done<std::vector<SharedRevision>> done);
  void remove_function(std::string tenant, std::string name, std::string expected, Done<void> done);
  void publish(SharedVersion publication, Done<uint64_t> done);
  void put_alias(SharedFunction alias, std::string expected, std::vector<std::string> versions,
                 Done<void> done);
  void remove_version(std::string tenant, std::string name, std::string expected,
                      std::function<bool(const std::string& copy)> needs_it, Done<void> done);
  void versions_are_brought(Done<bool> done);
  void bring_versions(BroughtVersions brought,
                      std::function<Result<std::string>(const std::string&)> package,
                      Done<void> done);
  void put_tenant(SharedTenant tenant, Done<void> done);
  void remove_tenant(std::string name, Done<void> done);
  void read(uint64_t known, Done<std::optional<SharedContents>> done);
  void read_function(std::string tenant, std::string name, Done<std::string> done);
  void read_package(std::string sha256, Done<std::string> done);

  void put_token(SharedToken token, SharedTenant tenant, Done<void> done);
  void remove_token(std::string id, Done<void> done);
  void put_secret(SharedSecret secret, SharedTenant tenant, Done<void> done);
  void remove_secret(std::string tenant, std::string name, Done<void> done);
  void read_access(uint64_t known, Done<std::optional<SharedAccess>> done);

  void put_async(SharedInvocation invocation, Done<InvocationId> done);
  void find_async(std::string tenant, std::string idempotency_key,
                  Done<std::optional<InvocationId>> done);
  void begin_async(std::string tenant, InvocationId id, Done<void> done);
  void retry_async(std::string tenant, InvocationId id, AsyncRetry retry, Done<void> done);
  void finish_async(std::string tenant, InvocationResult result, Duration expires_at,
                    std::optional<AsyncSuccessor> successor, Done<void> done);
  void find_pending(std::string tenant, InvocationId id,
                    Done<std::optional<SharedInvocation>> done);
  void async_result(std::string tenant, InvocationId id,
                    Done<std::optional<InvocationResult>> done);
  void expire_results(Done<uint64_t> done);
  // What the database's clock said at an instant of this node. A clock that is set changes nothing
  // of the time that passes from there on.
  struct SharedTime {
    Instant at;
    Duration time;  // since the Unix epoch
  };
  void time(Done<SharedTime> done);
  // The nodes that have invocations without a result, other than this one.
  void owners_of_pending(Done<std::vector<std::string>> done);
  void functions_to_claim(std::vector<std::string> lost, TenantFunction after, size_t most,
                          Done<std::vector<TenantFunction>> done);
  // One at a time: another one meanwhile is ABORTED.
  void claim(std::vector<std::string> lost, std::vector<TenantFunction> functions, size_t most,
             Done<std::vector<SharedInvocation>> done);
  // What this process has is that node's from now on, as give_shared() has it.
  void give(std::string tenant, InvocationId id, std::string node, Done<void> done);

 private:
  // What completions share with this, which may end first. Loop thread.
  struct Held {
    // What this process has or is about to put.
    HeldInvocations invocations;
    // Whether the catalog may have more of this process: an answer to COMMIT was lost.
    bool in_doubt = false;
    bool claims = false;  // a claim is on its way
  };

  const Owner owner_;
  const Clock& clock_;
  const std::shared_ptr<Sessions> sessions_;  // shared as it says
  FaultPoints* const faults_;
  std::string unreachable_;
  // Shared as it says.
  const std::shared_ptr<Held> held_ = std::make_shared<Held>();
  GroupCommit writer_;
};

}  // namespace lambent::catalog
