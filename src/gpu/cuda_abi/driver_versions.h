// find_driver_symbol: which of a function's names cuGetProcAddress answers with. For the libraries
// that stand in for the driver. Pure.
#pragma once

#include <cstring>

namespace lambent {

// The newest symbol of `name` that `version` (13000 for CUDA 13.0) knows. With `per_thread`, and
// where a name has variants for a default stream of each thread, one of those: versions before
// CUDA 7.0 have none, and NVIDIA's driver then has no answer rather than the other variant.
// Negative versions are newer than all, as they are to it. Null if there is none; `*known` says
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
  bool has_own = false;
  *known = false;
  for (const Version& row : kVersions) {
    if (std::strcmp(row.name, name) != 0) continue;
    *known = true;
    has_own |= row.per_thread;
    if (static_cast<unsigned>(row.version) > static_cast<unsigned>(version)) continue;
    const Version*& best = row.per_thread ? own : plain;
    if (best == nullptr || row.version > best->version) best = &row;
  }
  if (per_thread && has_own) return own == nullptr ? nullptr : own->symbol;
  return plain == nullptr ? nullptr : plain->symbol;
}

}  // namespace lambent
