// VersionCopies: versions and aliases that another node of a cluster made, kept here as they are
// there. The worker implements it, the copy of the cluster's catalog calls it. All calls and
// callbacks happen on the loop thread.
#pragma once

#include <functional>
#include <string>

#include "core/base/result.h"
#include "core/domain/invocation_service.h"
#include "core/domain/version.h"

namespace lambent {

class VersionCopies {
 public:
  virtual ~VersionCopies() = default;

  // Keeps a version under the number that its record's name has ("hello:3"), or changes it.
  // UNAVAILABLE: its function is not here yet; ABORTED: that is being changed.
  virtual void copy_version(FunctionChange change,
                            std::function<void(Result<FunctionSpec>)> done) = 0;
  // Keeps or replaces an alias, whichever revision it has. NOT_FOUND: its function is not here.
  virtual void copy_alias(Alias alias, std::function<void(Result<void>)> done) = 0;
  // NOT_FOUND.
  virtual void forget_alias(const FunctionName& function, const std::string& alias,
                            std::function<void(Result<void>)> done) = 0;
  // The function, which is here as it is there, has that number and time there: both are its own
  // from now on, and its sandboxes stay. NOT_FOUND; ABORTED: it is being changed, or has a higher
  // one here.
  virtual void renumber(const FunctionName& function, uint64_t revision, Duration deployed_at,
                        std::function<void(Result<void>)> done) = 0;
};

}  // namespace lambent
