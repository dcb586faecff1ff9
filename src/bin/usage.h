// What a program says of a command line that it does not understand: what is wrong with it, the
// word that was perhaps meant, an example, and where its help is. Used by mains.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lambent::bin {

// Help and versions go to stdout, as CLI11 writes them: 0. All else goes to stderr, as JSON where
// --json was given: 2. Without the command that is needed, the whole help is shown.
int exit_of(const CLI::App& app, const CLI::ParseError& error);

// What is wrong with the command line of that error, without the program's name.
std::string complaint(const CLI::App& app, const CLI::ParseError& error);

// With this in place of --help, a help has every option.
constexpr std::string_view kHelpAll = "--help-all";

// Parses; the exit code if the program ends with that: as exit_of says, or because it was asked for
// its tree (command_tree.h). `usual` are the options that --help shows, where there are so many
// that it does not show all; empty: it does.
std::optional<int> parse(CLI::App& app, int argc, char** argv,
                         const std::vector<std::string_view>& usual = {});

}  // namespace lambent::bin
