// What policies do with their heaps of flows: first_that_fits, the decision of those that take
// functions in a fixed order, and take_first, a look at who comes next. Pure; used by policies.
#pragma once

#include <optional>
#include <vector>

#include "decide/scheduling/indexed_heap.h"
#include "decide/scheduling/policy.h"

namespace lambent::scheduling {

// Which devices those may take that come later in the order.
enum class DevicesLeft { kAll, kIdle, kNone };

// The first function of the order goes first, and holds up the others while there is no place for
// it. But a device with nothing to do takes the next one that fits there: the first could not run
// on it in any case. A function that waits for its own sandboxes at work, or for its tenant's
// quota, holds up no other. `left` says what is left to orders that come after this one; `reason`
// is set to what holds up the first.
inline std::optional<Decision> first_that_fits(const View& view, IndexedHeap<uint64_t>& order,
                                               DevicesLeft& left, WaitReason& reason) {
  std::optional<Decision> decision;
  std::vector<std::pair<uint32_t, uint64_t>> passed_over;
  while (!order.empty()) {
    const FunctionId function{order.top()};
    if (const WaitReason hold = view.hold_of(function); hold != WaitReason::kNone) {
      // Its tenant's affair, too.
      if (passed_over.empty()) reason = hold;
      passed_over.emplace_back(order.top(), order.top_key());
      order.pop();
      continue;
    }
    const bool idle_devices_only = left == DevicesLeft::kIdle;
    const PlaceOrReason found =
        view.fleet.places().find(function, view.flow(function), idle_devices_only);
    if (found.place) {
      decision = Decision::to(function, *found.place);
      break;
    }
    if (!idle_devices_only && (passed_over.empty() || found.reason != WaitReason::kAtWork)) {
      reason = found.reason;
    }
    if (found.reason != WaitReason::kAtWork) {
      left = view.fleet.device_table().any_idle() ? DevicesLeft::kIdle : DevicesLeft::kNone;
      if (left == DevicesLeft::kNone) break;
    }
    passed_over.emplace_back(order.top(), order.top_key());
    order.pop();
  }
  for (const auto& [function, key] : passed_over) order.put(function, key);
  return decision;
}

// Appends the first `most` flows of the heap, which stays as it is.
template <typename Key>
void take_first(IndexedHeap<Key>& order, size_t most, std::vector<FunctionId>& out) {
  std::vector<std::pair<uint32_t, Key>> taken;
  while (taken.size() < most && !order.empty()) {
    taken.emplace_back(order.top(), order.top_key());
    out.push_back(FunctionId{order.pop()});
  }
  for (auto& [function, key] : taken) order.put(function, std::move(key));
}

}  // namespace lambent::scheduling
