// What the files of the emulated NVML share: the node that it reads, and its handles. Any thread.
#pragma once

#include <memory>
#include <string>

#pragma GCC visibility push(default)
#include "gpu/cuda_abi/nvml.h"
#pragma GCC visibility pop

#include "emulator/emulated_node/node.h"

namespace lambent::emulated_node {

// What an NVML function says that writes text into a buffer of the caller's.
nvmlReturn_t put_text(const std::string& text, char* out, unsigned length);

// Null outside nvmlInit and nvmlShutdown.
std::shared_ptr<Node> nvml_node();

// A handle is the number of its partition plus one.
inline nvmlDevice_t handle_of(int partition) {
  return reinterpret_cast<nvmlDevice_t>(static_cast<uintptr_t>(partition) + 1);
}

// The partition of a handle: a device, or a MIG device that still exists.
nvmlReturn_t find_partition(nvmlDevice_t handle, std::shared_ptr<Node>* node, int* partition);
// The same where only whole devices will do.
nvmlReturn_t find_device(nvmlDevice_t handle, std::shared_ptr<Node>* node, int* device);

}  // namespace lambent::emulated_node
