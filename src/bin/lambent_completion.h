// lambent completion: the script by which a shell completes lambent's words. Used by main.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "core/base/result.h"

namespace lambent::bin {

// From the verbs of `app` and of the programs beside this one, which are asked for theirs.
// INVALID_ARGUMENT: it is another shell than bash, zsh or fish.
Result<std::string> completion_of(const CLI::App& app, const std::string& shell);

}  // namespace lambent::bin
