#include "decide/scheduling/shared_accounts.h"

#include <algorithm>

namespace lambent::scheduling {

void SharedAccounts::enter(const Flows& flows, FunctionId function) {
  if (!is_known_) find_again(flows);
  add(flows[function.value], function);
}

void SharedAccounts::find_again(const Flows& flows) {
  sharers_.clear();
  for (uint32_t i = 0; i < flows.size(); ++i) add(flows[i], FunctionId{i});
  is_known_ = true;
}

void SharedAccounts::add(const Flow& flow, FunctionId function) {
  if (flow.account == FunctionId{} || !flow.registered) return;
  std::vector<FunctionId>& sharers = sharers_[flow.account];
  if (sharers.empty()) sharers.push_back(flow.account);
  if (std::ranges::find(sharers, function) == sharers.end()) sharers.push_back(function);
}

bool SharedAccounts::is_beside(const Flows& flows, FunctionId other, const Flow& flow) {
  if (other.value >= flows.size()) return false;
  const Flow& its = flows[other.value];
  return its.registered && its.tenant_slot == flow.tenant_slot &&
         (its.device_memory.count > 0) == (flow.device_memory.count > 0);
}

}  // namespace lambent::scheduling
