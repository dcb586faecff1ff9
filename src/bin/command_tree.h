// CommandTree: what a program understands on its command line: its verbs, and the options of each.
// A value; read from CLI11, or from another program of ours that was asked. Used by mains.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace lambent::bin {

struct CommandTree {
  struct Option {
    std::vector<std::string> names;  // "-o", "--output"
    std::string what;
    bool takes_value = false;
    std::vector<std::string> choices;  // what the value may be; empty: anything
  };

  std::string name;
  std::string what;
  std::vector<Option> options;
  std::vector<CommandTree> commands;
};

CommandTree tree_of(const CLI::App& app);

// With this as its only word a program of ours prints its tree in lines.
constexpr std::string_view kTellTree = "--tell-command-tree";
std::string lines_of(const CommandTree& tree);
// INVALID_ARGUMENT: these are no such lines.
Result<CommandTree> tree_from_lines(std::string_view lines);

}  // namespace lambent::bin
