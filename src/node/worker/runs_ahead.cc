#include "node/worker/runs_ahead.h"

#include <utility>
#include <vector>

namespace lambent::worker {

using workflow::Prospect;
using workflow::Run;

RunsAhead::~RunsAhead() {
  for (const auto& [id, known] : runs_) {
    for (const auto& [component, timer] : known.timers) loop_.cancel(timer);
  }
}

void RunsAhead::begin(InvocationId run, TenantId tenant) {
  if (prospect_of_) runs_[run].tenant = tenant;
}

void RunsAhead::begun(InvocationId run, uint32_t component) {
  const auto known = runs_.find(run);
  if (known != runs_.end()) known->second.began_at.emplace(component, loop_.clock().now());
}

void RunsAhead::forget(InvocationId run) {
  const auto known = runs_.find(run);
  if (known == runs_.end()) return;
  for (const auto& [component, timer] : known->second.timers) loop_.cancel(timer);
  runs_.erase(known);
}

FunctionName RunsAhead::function_of(const Known& known, const Run& run, uint32_t component) const {
  return {known.tenant, run.workflow().components[component].function};
}

void RunsAhead::look(InvocationId id) {
  const auto found = runs_.find(id);
  const Run* run = found != runs_.end() ? run_of_(id) : nullptr;
  if (run == nullptr || run->over()) return;
  Known& known = found->second;
  // Of many calls of one component only the last changes what is to come.
  if (std::exchange(known.unfinished, run->unfinished()) == run->unfinished()) return;
  std::vector<Prospect> prospects(run->workflow().components.size());
  for (uint32_t i = 0; i < prospects.size(); ++i) {
    if (run->has_ended(i)) {
      prospects[i].state = Prospect::State::kEnded;
      continue;
    }
    prospects[i] = prospect_of_(function_of(known, *run, i));
    if (!run->has_begun(i)) continue;
    prospects[i].state = Prospect::State::kBegun;
    const auto began = known.began_at.find(i);
    if (began != known.began_at.end()) prospects[i].since = loop_.clock().now() - began->second;
  }
  for (const workflow::ForeseenCall& call : foresee_calls(run->workflow(), prospects)) {
    if (known.timers.contains(call.component)) continue;
    known.timers[call.component] = loop_.call_after(
        call.delay, [this, id, component = call.component, left = call.within - call.delay] {
          tell(id, component, left);
        });
  }
}

// Another run may have had it started meanwhile.
void RunsAhead::tell(InvocationId id, uint32_t component, Duration within) {
  const auto found = runs_.find(id);
  if (found == runs_.end()) return;
  found->second.timers.erase(component);
  const Run* run = run_of_(id);
  if (run == nullptr || run->over() || run->has_begun(component)) return;
  const FunctionName function = function_of(found->second, *run, component);
  if (!prospect_of_(function).needs_start) return;
  foresee_(function, within, workflow::chance_of(run->workflow().components[component]));
}

}  // namespace lambent::worker
