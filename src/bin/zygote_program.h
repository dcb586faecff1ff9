// The side of a zygote that its program has, for native ones: it loads what is the same for all
// sandboxes, and is forked into them (node/sandbox/zygote.h, docs/decisions/0074-zygotes.md). Used
// by mains, which have one thread then.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace lambent {

// The first word of a command that is to be a zygote, after the program.
constexpr char kZygoteFlag[] = "--zygote";

// Calls `load`, then forks for each sandbox. Returns in a fork, which has the descriptors,
// variables and folder of its sandbox by then: the words of its command. None: there are no more
// sandboxes, or it cannot serve, which its root was told. `load` leaves no thread: none would be in
// a fork.
std::optional<std::vector<std::string>> serve_as_zygote(const std::function<Result<void>()>& load);

}  // namespace lambent
