// What lambent-worker installs functions' Python packages with and from. Used by its main, before
// the loop runs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bin/installation.h"
#include "bin/worker_config.h"
#include "core/base/result.h"
#include "node/environments/store.h"
#include "node/worker/sandbox_plan.h"

namespace lambent {

// A program of this installation, or in the PATH; empty: there is none.
std::string search_program(const std::string& name, const Installation& installation);

// "NAME=VALUE" of what tells programs of the node's proxy.
std::vector<std::string> proxy_variables();

// NOT_FOUND, naming the flag: a program, a file or a folder that it names is not there. Without a
// uv the worker runs, and refuses functions that have packages.
Result<environments::EnvironmentOptions> environment_options(const WorkerConfig& config,
                                                             const Installation& installation);

// The store, with what an earlier worker left; it outlives the sandboxes of the setting, which find
// their environments there. Blocks.
Result<std::unique_ptr<environments::EnvironmentStore>> open_environments(
    const WorkerConfig& config, const Installation& installation, loop::EventLoop& loop,
    LogSink& log, environments::EnvironmentStore::Offload offload,
    worker::SandboxSetting& sandboxes);

}  // namespace lambent
