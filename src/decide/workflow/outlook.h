// Outlook: which calls of a run are expected when, so that what they run in can be started in time.
// Pure; asked by the worker when a component of a run begins.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/time.h"
#include "decide/workflow/graph.h"

namespace lambent::workflow {

// What is known of a component: of its function, and of the run.
struct Prospect {
  Duration takes{};          // a call of it, by what they took
  bool is_guess = false;     // `takes`: it was not called yet
  Duration start{};          // a sandbox for it, by what it took
  bool needs_start = false;  // none is there, or starts
  enum class State : uint8_t { kWaiting, kBegun, kEnded } state = State::kWaiting;
  Duration since{};  // that it began; kBegun
};

struct ForeseenCall {
  uint32_t component = 0;
  Duration within{};  // its call is expected in so long
  Duration delay{};   // its sandbox has to start in so long: it is ready then when the call comes
  double chance = 1;  // that it is called at all
  bool operator==(const ForeseenCall&) const = default;
};

// How likely a component with a condition is called: nothing is known of that.
constexpr double kConditionHolds = 0.5;
inline double chance_of(const Component& component) { return component.when ? kConditionHolds : 1; }

// The first calls of the components that wait and need a start, in the order of the workflow. Each
// is expected when what it needs has ended, with the start that this itself needs, if it waits. The
// delay counts on the soonest: a call whose duration is a guess may take no time. One prospect for
// each component.
std::vector<ForeseenCall> foresee_calls(const Workflow& workflow,
                                        const std::vector<Prospect>& prospects);

}  // namespace lambent::workflow
