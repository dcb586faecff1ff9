// Which decisions are possible: the rules that hold between a policy and the dispatcher, in one
// place. Pure functions, used by the dispatcher on the thread that handles events, and by tests.
#pragma once

#include "core/base/result.h"
#include "decide/slice_scheduling/policy.h"
#include "decide/slice_scheduling/world.h"

namespace lambent::slice_scheduling {

// FAILED_PRECONDITION, saying which rule it breaks, if `decision` cannot be carried out in `world`.
// A policy that decides so is wrong: the dispatcher ends the program.
Result<void> validate(const SliceWorld& world, const Decision& decision);

// "start function 3 on slices 1, 2, exclusive": for errors and tests.
std::string to_string(const Decision& decision);

}  // namespace lambent::slice_scheduling
