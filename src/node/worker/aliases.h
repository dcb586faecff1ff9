// Aliases: what names of functions with a qualifier mean, and which revisions a function can go
// back to. Pure; used by Deployments and FunctionVersions on the loop thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/domain/version.h"
#include "node/worker/function_registry.h"

namespace lambent::worker {

class Aliases {
 public:
  void put(Alias alias);
  void remove(const FunctionName& function, const std::string& alias);
  void remove_all(const FunctionName& function) { aliases_.erase(function); }
  // Null: there is none.
  const Alias* find(const FunctionName& function, const std::string& alias) const;
  // In order of their names.
  std::vector<Alias> list(const FunctionName& function) const;
  size_t count(const FunctionName& function) const;

 private:
  std::map<FunctionName, std::map<std::string, Alias>> aliases_;
};

// The function or the version's record that a name means: "hello" and "hello:$LATEST" are the
// function, "hello:3" is a record, and "hello:prod" is one of those of the alias, chosen by `point`
// (0 to below 1). NOT_FOUND, naming those that the function has. Pure.
Result<FunctionName> resolve(const FunctionName& asked, double point,
                             const FunctionRegistry& functions, const Aliases& aliases);

// The same for a request by the Open Inference Protocol. `version` is the one that its path names:
// "3" is the record hello:3, and a function without versions takes whatever it is, and answers that
// it has no such version. Without one, the versions of the alias `serving` serve, and without such
// an alias the function. Where the name has a qualifier, it decides. Pure.
Result<FunctionName> resolve_model(const FunctionName& asked, const std::string& version,
                                   double point, const FunctionRegistry& functions,
                                   const Aliases& aliases);

// Their numbers: "1,2,5". Pure.
std::string model_versions(const std::vector<const FunctionSpec*>& versions);

// The last revisions of each function, kRevisionsKept at most, the present one included.
class Revisions {
 public:
  void keep(const FunctionSpec& spec);
  void remove(FunctionId function);
  // The oldest first.
  std::vector<FunctionSpec> list(FunctionId function) const;
  bool has_any(FunctionId function) const { return revisions_.contains(function); }
  CodeCounts& codes() { return codes_; }
  const CodeCounts& codes() const { return codes_; }

 private:
  std::map<FunctionId, std::map<uint64_t, FunctionSpec>> revisions_;
  CodeCounts codes_;
};

// Whether a deployment of one would change nothing of the other: they have the same code and
// settings.
bool is_same_deployment(const FunctionSpec& one, const FunctionSpec& other);

}  // namespace lambent::worker
