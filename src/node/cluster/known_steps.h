// KnownSteps: what the runs of workflows call, for the choice of their node, kept so that no
// request walks a graph. Owned by main; loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "core/domain/function.h"
#include "decide/routing/run_placement.h"

namespace lambent::cluster {

class KnownSteps {
 public:
  // Those of the workflow, as `walk` finds them. `changes`: another number after each change of any
  // function, since each may be a step, have more steps, or need another GPU than before.
  const std::vector<routing::Step>& of(const FunctionName& workflow, uint64_t changes,
                                       const std::function<std::vector<routing::Step>()>& walk) {
    if (changes != changes_) steps_.clear();
    changes_ = changes;
    const auto known = steps_.find(workflow);
    return known != steps_.end() ? known->second : steps_.emplace(workflow, walk()).first->second;
  }

 private:
  uint64_t changes_ = 0;
  std::map<FunctionName, std::vector<routing::Step>> steps_;  // of workflows that there are
};

}  // namespace lambent::cluster
