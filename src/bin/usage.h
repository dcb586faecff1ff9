// What a program says of a command line that it does not understand: what is wrong with it, the
// word that was perhaps meant, an example, and where its help is. Used by mains, after CLI11 has
// parsed.
#pragma once

#include <CLI/CLI.hpp>

namespace lambent::bin {

// Help and versions go to stdout, as CLI11 writes them: 0. All else goes to stderr, as JSON where
// --json was given: 2. Without the command that is needed, the whole help is shown.
int exit_of(const CLI::App& app, const CLI::ParseError& error);

}  // namespace lambent::bin
