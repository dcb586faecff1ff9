// What lambent-worker installs functions' Python packages with and from. Used by its main, before
// the loop runs.
#pragma once

#include <memory>
#include <string>

#include "bin/installation.h"
#include "bin/worker_config.h"
#include "core/base/result.h"
#include "node/environments/store.h"
#include "node/worker/sandbox_plan.h"

namespace lambent {

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
