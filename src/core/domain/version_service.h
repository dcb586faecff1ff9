// VersionService: versions, aliases and earlier revisions of functions. The worker implements it,
// frontends call it, tests fake it. All calls and callbacks happen on the loop thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/domain/code_parts.h"
#include "core/domain/invocation_service.h"
#include "core/domain/version.h"

namespace lambent {

struct Publication {
  FunctionName function;
  std::optional<std::string> description = {};  // none: the function's
  std::optional<uint64_t> number = {};          // of the version; none: the next one
  // What the publisher believes of the function; FAILED_PRECONDITION if it is another.
  std::string code_sha256 = {};  // empty: whatever it is
  std::optional<uint64_t> revision = {};
};

class VersionService {
 public:
  template <typename T>
  using Callback = std::function<void(Result<T>)>;

  virtual ~VersionService() = default;

  // The function or version that a qualified name ("hello", "hello:3", "hello:prod") means now; of
  // an alias with two versions, the first. NOT_FOUND.
  virtual Result<FunctionSpec> find_qualified(const FunctionName& name) const = 0;
  // What the owner of a function, version or revision that serves should know of it, in words;
  // empty: nothing.
  virtual std::string warning(const FunctionSpec& /*spec*/) const { return {}; }

  // Keeps the function as it is. If nothing changed since the last version the answer is that one,
  // unless it has another number than the one that is asked for. NOT_FOUND; ABORTED: a change is
  // under way; FAILED_PRECONDITION: it is of a kind without versions, has kVersionsPerFunction, or
  // had a version of that number or above.
  virtual void publish(Publication publication, Callback<FunctionSpec> done) = 0;
  // In order of their numbers. NOT_FOUND: there is no such function.
  virtual Result<std::vector<FunctionSpec>> list_versions(const FunctionName& function) const = 0;
  // NOT_FOUND; FAILED_PRECONDITION, naming it: an alias needs it.
  virtual void remove_version(const FunctionName& function, uint64_t version,
                              Callback<FunctionSpec> done) = 0;

  // `alias.revision` is the service's to give. ALREADY_EXISTS; NOT_FOUND: there is no such function
  // or version; FAILED_PRECONDITION: it has kAliasesPerFunction.
  virtual void create_alias(Alias alias, Callback<Alias> done) = 0;
  // ABORTED: `alias.revision` is not the one that it has now.
  virtual void update_alias(Alias alias, Callback<Alias> done) = 0;
  virtual void remove_alias(const FunctionName& function, const std::string& alias,
                            Callback<Alias> done) = 0;
  virtual Result<Alias> find_alias(const FunctionName& function,
                                   const std::string& alias) const = 0;
  // In order of their names.
  virtual Result<std::vector<Alias>> list_aliases(const FunctionName& function) const = 0;

  // Keeps so many instances ready for a version ("hello:3") or for an alias ("hello:prod"): those
  // of an alias are of the versions that it names, by their shares, and go where it goes. 0: none.
  // NOT_FOUND; INVALID_ARGUMENT: it names neither; FAILED_PRECONDITION: the version has instances
  // by another name. Errors of what cannot be had are those of a deployment.
  virtual void provision(const FunctionName& qualified, unsigned instances,
                         Callback<void> done) = 0;

  // How many of a version's are ready; of one that is gone, none.
  virtual InstanceReport instances(const FunctionName& record) const = 0;

  // What the function's package consists of. NOT_FOUND: there is no such function, or no package of
  // it is kept here.
  virtual void code_parts(const FunctionName& function, Callback<CodeParts> done) = 0;

  // The revisions that are kept here, the newest first.
  virtual Result<std::vector<Revision>> list_revisions(const FunctionName& function) const = 0;
  // The same of all nodes that share a catalog, those of this node while it cannot be reached.
  virtual void read_revisions(const FunctionName& function,
                              Callback<std::vector<Revision>> done) const = 0;
  // Deploys an earlier revision again, as a new one. None: the one before the present one.
  virtual void roll_back(const FunctionName& function, std::optional<uint64_t> revision,
                         Callback<FunctionSpec> done) = 0;
};

}  // namespace lambent
