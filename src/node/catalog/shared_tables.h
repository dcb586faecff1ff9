// What the nodes of a cluster keep together, as SQL that both kinds of database take: functions
// with their packages, tenants, and asynchronous invocations with their results. Free functions; on
// the catalog's thread, within its transactions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/domain/invocation.h"
#include "node/catalog/database.h"
#include "node/catalog/records.h"
#include "node/catalog/shared_revisions.h"

namespace lambent::catalog {

// A function as nodes tell each other of it.
struct SharedFunction {
  std::string tenant;
  std::string name;
  std::string digest;       // of `copy`
  std::string code_sha256;  // empty: it has no package
  std::string copy;         // JSON
  // Of the node that puts it: the least that it is to have. Read: what it has; 0: none yet.
  uint64_t revision = 0;
  uint64_t code_bytes = 0;  // of what a revision tells
  Duration deployed_at{};   // as SharedDeployment's; only read

  bool operator==(const SharedFunction&) const = default;
};

struct SharedTenant {
  std::string name;
  std::string settings;  // JSON

  bool operator==(const SharedTenant&) const = default;
};

// All that nodes copy, without the copies themselves.
struct SharedContents {
  uint64_t version = 0;
  std::vector<SharedTenant> tenants;
  std::vector<SharedFunction> functions;  // `copy` is empty
};

// Who has an asynchronous invocation: a node, and the process that is this node at present.
struct Owner {
  std::string node;
  std::string life;
};

// An asynchronous invocation by names that all nodes know.
struct SharedInvocation {
  std::string tenant;
  InvocationRequest request;  // the tenant's number within is not kept
  Duration submitted_at{};    // by this node's clock, since the Unix epoch
  unsigned attempts = 0;
  unsigned runs = 0;
  Duration due_at{};  // the same; zero: it does not wait
  unsigned chain = 0;
  std::string last_failure;
};
// As a node has it, without the numbers of its tenant and function.
AsyncInvocation pending_of(SharedInvocation invocation);

// What the catalog may have of a function when it is put.
struct Expected {
  std::string digest;  // this; empty: nothing
  bool or_nothing = false;
};

// Adds or replaces it if the catalog has what is expected, or the same already. Without
// `expected` only the latter: who puts a copy adds nothing. ABORTED: another node changed it
// meanwhile. `package` is read if the catalog lacks it. The answer is the deployment that it is to
// all nodes.
Result<SharedDeployment> put_shared_function(Database& database, const SharedFunction& function,
                                             const std::optional<Expected>& expected,
                                             const std::function<Result<std::string>()>& package);
// If the catalog has the digest `expected`, or none. ABORTED. Its versions and aliases go with it.
Result<void> remove_shared_function(Database& database, const std::string& tenant,
                                    const std::string& name, const std::string& expected);
// Versions and aliases of functions are kept beside them, as functions NAME:NUMBER and NAME:ALIAS.
// A version that is to be kept.
struct SharedVersion {
  SharedFunction version;  // with the name of its function
  std::string function_digest;
  std::optional<uint64_t> number;  // none: the next one
  uint64_t last_here = 0;          // the highest that the node has
};
// The number that it has. ABORTED: its function was changed; FAILED_PRECONDITION: the function is
// not in the catalog, or such a number was used; UNAVAILABLE: see bring_versions().
Result<uint64_t> publish_shared(Database& database, const SharedVersion& publication);
// As put_shared_function(). NOT_FOUND: one of `versions`, or the function, is not there any more.
Result<void> put_shared_alias(Database& database, const SharedFunction& alias,
                              const std::string& expected,
                              const std::vector<std::string>& versions);
// FAILED_PRECONDITION: an alias, told by its copy, needs it.
Result<void> remove_shared_version(Database& database, const std::string& tenant,
                                   const std::string& name, const std::string& expected,
                                   const std::function<bool(const std::string& copy)>& needs_it);
// Whether the versions and aliases that the first node had before were brought here. Until then no
// others are made: they would have the same numbers.
Result<bool> versions_are_brought(Database& database);
// Brings them, once. Those of functions that the catalog does not have stay the node's own. By
// tenant and function of `last` the highest number that was used.
struct BroughtVersions {
  std::vector<SharedFunction> all;
  std::vector<std::pair<std::pair<std::string, std::string>, uint64_t>> last;
};
Result<void> bring_versions(Database& database, const BroughtVersions& brought,
                            const std::function<Result<std::string>(const std::string&)>& package);

Result<void> put_shared_tenant(Database& database, const SharedTenant& tenant);
Result<void> remove_shared_tenant(Database& database, const std::string& name);
// That of a table of one row, which counts up with each change.
Result<uint64_t> version_in(Database& database, const std::string& table);
// Nothing if the catalog still has the version `known`.
Result<std::optional<SharedContents>> read_shared(Database& database, uint64_t known);
// NOT_FOUND.
Result<std::string> read_shared_function(Database& database, const std::string& tenant,
                                         const std::string& name);
Result<std::string> read_shared_package(Database& database, const std::string& sha256);

// Clocks of nodes differ: instants are kept by the database's clock. Those that are given and read
// are by this node's, which says `now`.

// The answer is the id under which it is kept, as Catalog::put_async().
Result<InvocationId> put_shared_async(Database& database, const Owner& owner,
                                      const SharedInvocation& invocation, Duration now);
Result<std::optional<InvocationId>> find_shared_async(Database& database, const std::string& tenant,
                                                      const std::string& idempotency_key);
// These three: NOT_FOUND if the owner has none without a result.
Result<void> begin_shared_async(Database& database, const Owner& owner, const std::string& tenant,
                                InvocationId id);
Result<void> retry_shared_async(Database& database, const Owner& owner, const std::string& tenant,
                                InvocationId id, const AsyncRetry& retry, Duration now);
Result<void> finish_shared_async(Database& database, const Owner& owner, const std::string& tenant,
                                 const InvocationResult& result, Duration expires_at,
                                 const std::optional<AsyncSuccessor>& successor, Duration now);
// One without a result that the owner has; nothing if there is none.
Result<std::optional<SharedInvocation>> find_shared_pending(Database& database, const Owner& owner,
                                                            const std::string& tenant,
                                                            InvocationId id, Duration now);
// As Catalog::async_result().
Result<std::optional<InvocationResult>> read_shared_result(Database& database,
                                                           const std::string& tenant,
                                                           InvocationId id);
// Those whose time is over by the database's clock.
Result<uint64_t> expire_shared_results(Database& database);
// What the database's clock says, since the Unix epoch.
Result<Duration> time_of(Database& database);
// By tenant and id.
using HeldInvocations = std::set<std::pair<std::string, InvocationId>>;
// What the catalog has of this process and the process does not: an answer to COMMIT was lost. It
// is no process's from then on, for claim_shared().
Result<void> give_up_unheld(Database& database, const Owner& owner, const HeldInvocations& held);
// A function by the names of its tenant and its own.
using TenantFunction = std::pair<std::string, std::string>;
// Of what no process of this node has, which earlier ones or the nodes of `lost` had: the first
// `most` of its functions behind `after`, in an order of the database's.
Result<std::vector<TenantFunction>> functions_to_claim(Database& database, const Owner& owner,
                                                       const std::vector<std::string>& lost,
                                                       const TenantFunction& after, size_t most);
// Gives `owner` at most `most` invocations of these functions that no process has: of earlier
// processes of its node, and of the nodes of `lost` whose lease no session holds. In order of
// submission.
Result<std::vector<SharedInvocation>> claim_shared(Database& database, const Owner& owner,
                                                   const std::vector<std::string>& lost,
                                                   const std::vector<TenantFunction>& functions,
                                                   size_t most, Duration now);
// One of `owner` is that node's from now on, which finds it as one of an earlier process of its
// own. NOT_FOUND if it is not, or has a result.
Result<void> give_shared(Database& database, const Owner& owner, const std::string& tenant,
                         InvocationId id, const std::string& node);
// The nodes, other than this one, that have invocations without a result.
Result<std::vector<std::string>> owners_of_pending(Database& database, const std::string& self);

}  // namespace lambent::catalog
