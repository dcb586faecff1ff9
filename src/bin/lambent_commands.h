// The client's subcommands as flags: CLI11 in one place, each verb's options filled and handed to
// room cli. Used by main.
#pragma once

namespace lambent::bin {

// The exit code: 0, 1 (the function failed), 2 (bad usage), or that of an error.
int run_client_command(int argc, char** argv);

}  // namespace lambent::bin
