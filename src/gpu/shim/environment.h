// The environment of the preloaded libraries: the only place that reads it.
// Read again at every call; the callers keep what they need.
#pragma once

namespace lambent::shim {

// Each is null when unset or empty.
const char* real_driver_path();  // LAMBENT_SHIM_DRIVER, absolute path of the real libcuda.so.1
const char* real_nvml_path();    // LAMBENT_SHIM_NVML, absolute path of the real libnvidia-ml.so.1
const char* ledger_path();       // LAMBENT_SHIM_LEDGER, the memory ledger of this sandbox
int gpu_count();                 // LAMBENT_SHIM_GPUS, how many devices it has; 1 if unset
const char* log_path();          // LAMBENT_SHIM_LOG, where to write what goes wrong
bool traces();                   // LAMBENT_SHIM_TRACE is set: log which functions are asked for
const char* working_set_name();  // LAMBENT_SHIM_WORKING_SET: whole or touched
const char* memory_mode_name();  // LAMBENT_SHIM_MEMORY_MODE: off, vmm or uvm
const char* worker_path();       // LAMBENT_SHIM_MEMORY, the worker's socket for moves of memory
const char* device_link_path();  // LAMBENT_SHIM_LINK, lambent-device's socket: turns and leases
const char* managed_way_name();  // LAMBENT_SHIM_UVM: prefetch, advise or faults
// LAMBENT_SHIM_OVERSUBSCRIBE=1: managed memory may be more than the device has free.
bool may_oversubscribe();

}  // namespace lambent::shim
