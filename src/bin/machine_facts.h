// What lambent doctor looks at: files of the driver, the disk, and what other programs say. Blocks
// while they run, each for at most a few seconds.
#pragma once

#include "edge/cli/doctor.h"
#include "edge/cli/transport.h"

namespace lambent::bin {

// `state_folder`: of the worker that would run; it need not exist. `endpoint` is what `transport`
// leads to, for people.
cli::MachineFacts find_machine_facts(const std::string& state_folder,
                                     const std::string& nvidia_driver, cli::Transport& transport,
                                     const std::string& endpoint);

}  // namespace lambent::bin
