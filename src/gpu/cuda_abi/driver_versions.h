// find_driver_symbol: which of a function's names cuGetProcAddress answers with. For the libraries
// that stand in for the driver. Pure.
#pragma once

#include <cstring>

namespace lambent {

// The newest symbol of `name` that `version` (13000 for CUDA 13.0) knows: the variant for a default
// stream of each thread if `per_thread` and there is one. Null if there is none; `*known` says
// whether a later version has the name.
inline const char* find_driver_symbol(const char* name, int version, bool per_thread, bool* known) {
  struct Version {
    const char* name;
    int version;
    const char* symbol;
    bool per_thread;
  };
  static constexpr Version kVersions[] = {
#define DRIVER_VERSION(name, version, symbol, per_thread) {#name, version, #symbol, per_thread},
#include "gpu/cuda_abi/driver_versions.inc"
#undef DRIVER_VERSION
  };
  const Version *plain = nullptr, *own = nullptr;
  *known = false;
  for (const Version& row : kVersions) {
    if (std::strcmp(row.name, name) != 0) continue;
    *known = true;
    if (row.version > version) continue;
    const Version*& best = row.per_thread ? own : plain;
    if (best == nullptr || row.version > best->version) best = &row;
  }
  if (per_thread && own != nullptr) return own->symbol;
  return plain == nullptr ? nullptr : plain->symbol;
}

}  // namespace lambent
