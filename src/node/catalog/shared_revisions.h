// The last deployments of each function that the nodes of a cluster share, numbered for all of
// them, as SQL that both kinds of database take. Free functions; on the catalog's thread, within
// its transactions, and behind the lock of its version where they change something.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "node/catalog/database.h"

namespace lambent::catalog {

struct SharedFunction;

// Which deployment of a function it is.
struct SharedDeployment {
  uint64_t revision = 0;  // 0: it has none, such as a version
  Duration at{};          // by the database's clock, since the Unix epoch

  bool operator==(const SharedDeployment&) const = default;
};

// One that a function can go back to.
struct SharedRevision {
  SharedDeployment deployment;
  std::string code_sha256;
  uint64_t code_bytes = 0;
  std::string copy;  // as SharedFunction's
  bool is_current = false;
};

// Notes the function as it is there from now on, unless it is the last that was noted. The number
// is the next one, and at least the function's `revision`: numbers are never used again, also after
// the function was removed, so that a node which missed that sees them grow. kRevisionsKept are
// kept.
Result<SharedDeployment> note_revision(Database& database, const SharedFunction& function);
// The last first.
Result<std::vector<SharedRevision>> read_revisions(Database& database, const std::string& tenant,
                                                   const std::string& function);
// The function is gone. Its number stays used: its own row keeps it while no more than
// kNumbersOfRemoved functions of the tenant have one without being there, and then one row for all,
// above which functions that are new begin.
inline constexpr uint64_t kNumbersOfRemoved = 1000;
Result<void> drop_revisions(Database& database, const std::string& tenant,
                            const std::string& function);
// Those of functions that are gone, also where a program removed them that knows no revisions.
Result<void> drop_revisions_of_none(Database& database);
// The tenant is gone, and its numbers with it.
Result<void> drop_revision_numbers(Database& database, const std::string& tenant);

}  // namespace lambent::catalog
