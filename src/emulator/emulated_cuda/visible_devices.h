// Which partitions of the node a process sees, and in which order. Asked once, by cuInit.
#pragma once

#include <vector>

#include "emulator/emulated_node/node.h"
#include "emulator/emulated_node/settings.h"

namespace lambent::emulated_cuda {

// CUDA_VISIBLE_DEVICES lists indices, beginnings of GPU UUIDs, UUIDs of MIG devices, or
// MIG-GPU-<uuid>/<GPU instance>/<compute instance>. The first entry that is none, or that repeats
// one, ends the list. A process sees at most one MIG device, and sees no other device then; an
// entry that means a device in MIG mode means the first of its instances. Without the variable all
// devices that are not in MIG mode are seen, or else the first MIG device.
std::vector<int> visible_partitions(const emulated_node::Settings& settings,
                                    emulated_node::Node& node);

}  // namespace lambent::emulated_cuda
