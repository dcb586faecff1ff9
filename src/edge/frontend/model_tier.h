// Where a model is, by the sandboxes that there are: the nearer, the sooner its next request runs.
// Pure; any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/domain/invocation_service.h"

namespace lambent::frontend {

enum class ModelTier {
  kDisk,    // no process has it loaded. Whether its files are in the page cache the kernel knows
  kHost,    // loaded in a process on the host's processors, or moved off its GPU
  kDevice,  // its memory is on a GPU
};
// "disk", "host" or "device".
std::string_view name_of(ModelTier tier);

// Of each function that has sandboxes, the nearest. Versions are called NAME:NUMBER.
std::map<std::string, ModelTier> tiers_of(const std::vector<SandboxStatus>& sandboxes);

}  // namespace lambent::frontend
