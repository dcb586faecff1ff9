// lambent secrets: values that a tenant keeps at the worker for its functions. They go in from
// standard input or a file, never from the command line, which other users can see; and they never
// come out.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "edge/cli/console.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

int run_secrets_ls(Transport& transport, Console& console);

struct SetSecretOptions {
  std::string name;
  std::string file;  // empty: standard input, without the newline at its end
};
int run_secrets_set(Transport& transport, Console& console, std::istream& in,
                    const SetSecretOptions& options);

// Goes on after a failure; the exit code is the first one's.
int run_secrets_rm(Transport& transport, Console& console, const std::vector<std::string>& names);

}  // namespace lambent::cli
