// What lambent-worker pulls functions' images with and from. Used by its main, before the loop
// runs.
#pragma once

#include <memory>

#include "bin/installation.h"
#include "bin/worker_config.h"
#include "core/base/log.h"
#include "core/base/result.h"
#include "node/images/store.h"
#include "node/worker/sandbox_plan.h"

namespace lambent {

// The store, with what an earlier worker left; it outlives the sandboxes of the setting, which find
// their images there. Without skopeo and umoci the worker runs, and refuses functions of images.
// Blocks. NOT_FOUND: --registry-auth names no file.
Result<std::unique_ptr<images::ImageStore>> open_images(const WorkerConfig& config,
                                                        const Installation& installation,
                                                        loop::EventLoop& loop, LogSink& log,
                                                        images::ImageStore::Offload offload,
                                                        worker::SandboxSetting& sandboxes);

}  // namespace lambent
