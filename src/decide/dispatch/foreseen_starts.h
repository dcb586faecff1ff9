// ForeseenStarts: what became of sandboxes that were started ahead of calls, told from dispatch's
// events and actions. A value; kept beside dispatch, where its actions are performed.
#pragma once

#include <cstdint>
#include <set>
#include <span>

#include "decide/dispatch/action.h"
#include "decide/dispatch/event.h"
#include "decide/scheduling/flow.h"

namespace lambent::dispatch {

class ForeseenStarts {
 public:
  struct Counts {
    uint64_t started = 0;
    uint64_t used = 0;    // a call took the start over, or found the sandbox
    uint64_t wasted = 0;  // its sandbox ended without any
    bool operator==(const Counts&) const = default;
  };

  // An event and what dispatch made of it. Sandboxes of functions with min_instances are started
  // for no call either, and do not count. Whether the counts changed.
  bool note(const Event& event, std::span<const Action> actions, const scheduling::Flows& flows) {
    const Counts before = counts_;
    if (const auto* exited = std::get_if<SandboxExited>(&event); exited && !unused_.empty()) {
      counts_.wasted += unused_.erase(exited->sandbox);
    }
    for (const Action& action : actions) {
      if (const auto* start = std::get_if<StartSandbox>(&action)) {
        if (!start->ahead || flows[start->function.value].min_instances > 0) continue;
        unused_.insert(start->sandbox);
        ++counts_.started;
      } else if (const auto* run = std::get_if<StartInvocation>(&action)) {
        if (!unused_.empty()) counts_.used += unused_.erase(run->sandbox);
      }
    }
    return counts_ != before;
  }

  // The rest of those started wait, or start.
  const Counts& counts() const { return counts_; }

 private:
  Counts counts_;
  std::set<SandboxId> unused_;
};

}  // namespace lambent::dispatch
