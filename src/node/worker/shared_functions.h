// SharedFunctions: what all nodes of a cluster agree on before one of them changes a function of
// its own. Made by main; loop thread.
#pragma once

#include <functional>

#include "core/base/result.h"
#include "core/domain/function.h"

namespace lambent::worker {

class SharedFunctions {
 public:
  virtual ~SharedFunctions() = default;
  using Done = std::function<void(Result<void>)>;

  // Keeps the function for all nodes. `before`: as it is here now, null if it is not. ABORTED:
  // another node changed it meanwhile; UNAVAILABLE: what they share cannot be reached.
  virtual void put(const FunctionSpec& spec, const FunctionSpec* before, Done done) = 0;
  virtual void remove(const FunctionSpec& spec, Done done) = 0;
};

}  // namespace lambent::worker
