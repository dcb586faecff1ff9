#include "bin/lambent_completion.h"

#include <algorithm>

#include "bin/command_tree.h"
#include "bin/completion.h"
#include "bin/lambent_paths.h"
#include "bin/programs.h"
#include "gpu/bundle/child_process.h"

namespace lambent::bin {
namespace {

CommandTree* find(CommandTree& tree, std::string_view verb) {
  const auto found = std::find_if(tree.commands.begin(), tree.commands.end(),
                                  [&](const CommandTree& each) { return each.name == verb; });
  return found != tree.commands.end() ? &*found : nullptr;
}

Result<CommandTree> tree_of_program(std::string_view program) {
  const std::string path = own_folder() + "/" + std::string(program);
  ASSIGN_OR_RETURN(const bundle::ChildOutcome told,
                   bundle::run_child({path, std::string(kTellTree)}, {}));
  if (told.exit_code != 0) {
    return Error{ErrorCode::kInternal, path + " does not say what it understands"};
  }
  return tree_from_lines(told.standard_output);
}

// What `from` has and `to` has not.
void add_options(const CommandTree& from, CommandTree& to) {
  for (const CommandTree::Option& option : from.options) {
    const bool known = std::any_of(to.options.begin(), to.options.end(), [&](const auto& each) {
      return each.names.back() == option.names.back();
    });
    if (!known) to.options.push_back(option);
  }
}

}  // namespace

Result<std::string> completion_of(const CLI::App& app, const std::string& shell) {
  constexpr std::pair<std::string_view, ShellKind> kShells[] = {
      {"bash", ShellKind::kBash}, {"zsh", ShellKind::kZsh}, {"fish", ShellKind::kFish}};
  const auto* kind = std::find_if(std::begin(kShells), std::end(kShells),
                                  [&](const auto& each) { return each.first == shell; });
  if (kind == std::end(kShells)) {
    return Error{ErrorCode::kInvalidArgument, "'" + shell + "' is none of bash, zsh and fish"};
  }
  CommandTree tree = tree_of(app);
  for (const Program& program : kPrograms) {
    CommandTree* verb = find(tree, program.verb);
    if (verb == nullptr) continue;
    ASSIGN_OR_RETURN(const CommandTree own, tree_of_program(program.program));
    add_options(own, *verb);
    verb->commands = own.commands;
  }
  // It hands on what it does not understand.
  CommandTree* sweep = find(tree, "sweep");
  const CommandTree* simulate = find(tree, "simulate");
  if (sweep != nullptr && simulate != nullptr) add_options(*simulate, *sweep);
  return completion_script(kind->second, tree);
}

}  // namespace lambent::bin
