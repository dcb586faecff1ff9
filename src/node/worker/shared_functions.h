// SharedFunctions: what all nodes of a cluster agree on before one of them changes a function of
// its own. Made by main; loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/domain/function.h"
#include "core/domain/version.h"

namespace lambent::worker {

class SharedFunctions {
 public:
  virtual ~SharedFunctions() = default;
  using Done = std::function<void(Result<void>)>;

  // What all nodes call a deployment.
  struct Deployed {
    uint64_t revision = 0;  // 0: they have no number for it
    Duration at{};          // since the Unix epoch, by a clock that is the same for all
  };
  // Keeps the function for all nodes. `before`: as it is here now, null if it is not. ABORTED:
  // another node changed it meanwhile; UNAVAILABLE: what they share cannot be reached.
  virtual void put(const FunctionSpec& spec, const FunctionSpec* before,
                   std::function<void(Result<Deployed>)> done) = 0;
  // Its last deployments, the newest first. Empty: none was noted.
  virtual void list_revisions(const FunctionName& function,
                              std::function<void(Result<std::vector<Revision>>)> done) = 0;
  // The zip of a function's code. NOT_FOUND.
  virtual void read_code(const std::string& code_sha256,
                         std::function<void(Result<std::string>)> done) = 0;
  // Of a version's record FAILED_PRECONDITION, if an alias needs it.
  virtual void remove(const FunctionSpec& spec, Done done) = 0;

  // Keeps `version`, which has the name of `function`, under the next number of all nodes, or under
  // `number`; `last_here` is the highest that this node has. The answer is the number. Errors are
  // those of put(), and FAILED_PRECONDITION: the number was used.
  struct Publication {
    const FunctionSpec& version;
    const FunctionSpec& function;  // as it is here now
    std::optional<uint64_t> number;
    uint64_t last_here = 0;
  };
  virtual void publish(const Publication& publication,
                       std::function<void(Result<uint64_t>)> done) = 0;
  // `before`: as it is here now, null if it is not.
  virtual void put_alias(const Alias& alias, const Alias* before, Done done) = 0;
  virtual void remove_alias(const Alias& alias, Done done) = 0;
};

}  // namespace lambent::worker
