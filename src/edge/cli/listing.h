// lambent ls, ps and version: what is deployed, what runs, who answers.
#pragma once

#include <string>

#include "edge/cli/console.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

int run_ls(Transport& transport, Console& console);
int run_ps(Transport& transport, Console& console);
// When functions are invoked by themselves.
int run_schedules(Transport& transport, Console& console);
// This program's version, and the worker's if one answers.
int run_version(Transport& transport, Console& console, const std::string& own_version);

}  // namespace lambent::cli
