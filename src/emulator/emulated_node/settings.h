// The environment of the preloaded libraries, read here and nowhere else, once per process.
#pragma once

#include <string>

namespace lambent::emulated_node {

struct Settings {
  std::string node_path;    // EMULATED_CUDA_NODE
  std::string machine;      // EMULATED_CUDA_CONFIG: preset or TOML file, used at creation
  bool model_mode = false;  // EMULATED_CUDA_LAUNCH_MODE = compute | model
  bool launch_mode_valid = true;
  bool visible_devices_set = false;
  std::string visible_devices;  // CUDA_VISIBLE_DEVICES
  std::string kernels;          // EMULATED_CUDA_KERNELS: host code for images of GPU code
  std::string trace_path;       // EMULATED_CUDA_TRACE: calls are counted, and written there at exit
  std::string faults;           // EMULATED_CUDA_FAULTS: a fault plan; with a leading @, its file
  std::string mps_percentage;   // CUDA_MPS_ACTIVE_THREAD_PERCENTAGE
  std::string mps_memory_limit;  // CUDA_MPS_PINNED_DEVICE_MEM_LIMIT
  std::string mps_priority;      // CUDA_MPS_CLIENT_PRIORITY
  std::string log_path;          // EMULATED_CUDA_LOG: refused calls, one line each; empty: stderr
};

Settings read_settings();

}  // namespace lambent::emulated_node
