// SharedAccounts: which flows have one virtual time, because they are versions of one function. A
// part of fair queuing; owned by FairQueuing, on the loop thread.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "decide/scheduling/flow.h"

namespace lambent::scheduling {

// A function of which versions are served has several flows: one of its own and one for each
// version, since these have queues, sandboxes and run times of their own. Its share is one share
// all the same: what one of them is charged, all are.
class SharedAccounts {
 public:
  // The flow was registered.
  void enter(const Flows& flows, FunctionId function);
  // After a snapshot: from then on the flows tell.
  void forget() { is_known_ = false; }

  // The other flows that have the virtual time of this one and take turns where it does.
  template <typename Visit>
  void for_each_other(const Flows& flows, FunctionId function, Visit visit) {
    if (is_known_ && sharers_.empty()) return;
    if (!is_known_) find_again(flows);
    const Flow& flow = flows[function.value];
    const FunctionId account = flow.account == FunctionId{} ? function : flow.account;
    const auto found = sharers_.find(account);
    if (found == sharers_.end()) return;
    for (const FunctionId each : found->second) {
      if (each != function && is_beside(flows, each, flow)) visit(each);
    }
  }

 private:
  void find_again(const Flows& flows);
  void add(const Flow& flow, FunctionId function);
  static bool is_beside(const Flows& flows, FunctionId other, const Flow& flow);

  bool is_known_ = true;
  // By the function whose versions they are; it is the first of them.
  std::unordered_map<FunctionId, std::vector<FunctionId>> sharers_;
};

}  // namespace lambent::scheduling
