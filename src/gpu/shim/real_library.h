// The real library behind a preloaded one: opened at the first call, its functions looked up one by
// one. Any thread; shared by the driver shim and the NVML shim, each with a copy of its own.
#pragma once

#include "gpu/shim/environment.h"

// Written by tools/generate_forwarders.py.
extern "C" [[gnu::visibility("hidden")]] void* lambent_shim_slots[];
extern "C" [[gnu::visibility("hidden")]] const char* const lambent_shim_names[];
// Called by a forwarder that runs for the first time: finds the function and remembers it.
extern "C" [[gnu::visibility("hidden")]] void* lambent_shim_resolve(unsigned slot);

namespace lambent::shim {

// What differs between the two libraries; defined once in each.
struct RealLibrary {
  const char* (*configured_path)();
  const char* const* usual_paths;  // tried in order if nothing is configured; ends with null
  int no_library_status;           // what every call returns if there is no real library
  int no_function_status;          // what a call returns that the real library does not have
};
extern const RealLibrary kRealLibrary;

// The handle, or null: a call made while it is being opened also sees null.
void* open_real_library();
// A function of the real library; null if it has none of this name.
void* real_function(const char* name);

// Calls through the slot: the first call resolves, later ones go straight.
template <typename Function>
Function real(unsigned slot) {
  return reinterpret_cast<Function>(__atomic_load_n(&lambent_shim_slots[slot], __ATOMIC_ACQUIRE));
}

}  // namespace lambent::shim
