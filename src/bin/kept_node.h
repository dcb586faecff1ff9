// The node of emulated GPUs as one program of the worker leaves it to the next, for the sandboxes
// that stay on it. Used by the worker's main.
#pragma once

#include <memory>
#include <string>

#include "bin/worker_config.h"
#include "core/base/log.h"
#include "core/base/result.h"
#include "core/loop/event_loop.h"
#include "node/worker/emulated_node_server.h"
#include "node/worker/kept_sandboxes.h"
#include "node/worker/sandbox_plan.h"

namespace lambent {

struct ServedNode {
  std::unique_ptr<worker::EmulatedNodeServer> server;  // null: the GPUs are real, or there are none
  std::string machine;                                 // digest of what it is made of
};

// Serves the node in the image that find_driver() made; or goes on with that of the program before,
// if it is made of the same. If it is not, no sandbox that was on it is adopted.
Result<ServedNode> serve_emulated_node(const WorkerConfig& config, const worker::GpuDriver& driver,
                                       loop::EventLoop& loop, LogSink& log,
                                       worker::KeptSandboxes& kept);

// Adds it to what the next program gets, if sandboxes stay on it.
void keep_node(const ServedNode& node, worker::KeptSandboxes& kept);

}  // namespace lambent
