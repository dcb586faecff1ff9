// Finds out what this machine has of NVIDIA's GPUs, for the worker's start and for `lambent
// doctor`.
#pragma once

#include <string>
#include <vector>

#include "core/domain/nvidia_gpus.h"

namespace lambent::bin {

// Where libcuda.so.1 and what belongs to it usually lie.
const std::vector<std::string>& nvidia_library_folders();

// The first of these folders that has libcuda.so.1; empty: none has.
std::string find_nvidia_folder();

struct NvidiaPlaces {
  std::string library_folder;  // empty: searched for
  std::string describer;       // lambent-device, which asks CUDA's driver; empty: it is not asked
  std::string root;            // of /dev and /sys, for tests
};

// Blocks for 10 s at most, which a driver that hangs takes.
NvidiaFacts find_nvidia_facts(const NvidiaPlaces& places);

}  // namespace lambent::bin
