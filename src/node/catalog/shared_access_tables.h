// What the nodes of a cluster keep together of who may use it, as SQL that both kinds of database
// take: tokens as digests, and secrets as they are sealed. Free functions; on the catalog's thread,
// within its transactions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/domain/access.h"
#include "node/catalog/database.h"
#include "node/catalog/shared_tables.h"

namespace lambent::catalog {

// A token as all nodes know it: by its tenant's name.
struct SharedToken {
  std::string tenant;
  Token token;                // its tenant's number within is each node's own and is not kept
  std::string secret_sha256;  // 32 bytes

  bool operator==(const SharedToken&) const = default;
};

// A secret, sealed with the key that all nodes have.
struct SharedSecret {
  std::string tenant;
  std::string name;
  std::string sealed;
  Duration changed_at{};  // since the Unix epoch

  bool operator==(const SharedSecret&) const = default;
};

struct SharedAccess {
  uint64_t version = 0;
  std::vector<SharedToken> tokens;    // in order of creation
  std::vector<SharedSecret> secrets;  // in order of tenant and name
};

// The first node leaves a proof of the key with which all seal; FAILED_PRECONDITION for a node with
// another one. A transaction of its own.
Result<void> settle_shared_key(Database& database, const std::string& proof);

// `tenant` is added if the catalog does not have it: a node may have had it before it joined.
// ALREADY_EXISTS: there is a token for certificates with that name.
Result<void> put_shared_token(Database& database, const SharedToken& token,
                              const SharedTenant& tenant);
// One that is not there is removed as well.
Result<void> remove_shared_token(Database& database, const std::string& id);
Result<void> put_shared_secret(Database& database, const SharedSecret& secret,
                               const SharedTenant& tenant);
Result<void> remove_shared_secret(Database& database, const std::string& tenant,
                                  const std::string& name);
// Nothing if the catalog still has the version `known`.
Result<std::optional<SharedAccess>> read_shared_access(Database& database, uint64_t known);

}  // namespace lambent::catalog
