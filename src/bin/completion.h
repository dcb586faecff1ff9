// What a shell has to know to complete the words of a command. Pure; used by lambent's main.
#pragma once

#include <string>

#include "bin/command_tree.h"

namespace lambent::bin {

enum class ShellKind { kBash, kZsh, kFish };

// A script for that shell to read; `tree.name` is the command that it completes.
std::string completion_script(ShellKind shell, const CommandTree& tree);

}  // namespace lambent::bin
