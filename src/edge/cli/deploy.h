// lambent deploy: reads lambent.toml, zips the code, creates or updates the function.
#pragma once

#include "core/base/result.h"
#include "edge/cli/console.h"
#include "edge/cli/deploy_options.h"
#include "edge/cli/deployment.h"
#include "edge/cli/package.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

// The packages of a workflow's components come first; nothing is sent before all are packed.
int run_deploy(Transport& transport, Console& console, const DeployOptions& options);

// What one package needs beside it, and the function itself.
Result<Deployed> deploy_package(Transport& transport, Console& console, const Package& package,
                                const DeployOptions& options);

}  // namespace lambent::cli
