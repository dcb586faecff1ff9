#include "emulator/emulated_node/settings.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace lambent::emulated_node {

namespace {
std::string text(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

// A file that cannot be read becomes a plan that is refused by its name.
std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream content;
  content << file.rdbuf();
  return file ? content.str() : "unreadable: " + path;
}
}  // namespace

Settings read_settings() {
  Settings settings;
  // Without a path each user gets a node of his own.
  settings.node_path =
      text("EMULATED_CUDA_NODE", "/tmp/emulated-cuda-" + std::to_string(getuid()) + ".node");
  settings.machine = text("EMULATED_CUDA_CONFIG", "tiny");
  std::string mode = text("EMULATED_CUDA_LAUNCH_MODE", "compute");
  settings.model_mode = mode == "model";
  settings.launch_mode_valid = mode == "model" || mode == "compute";
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  settings.visible_devices_set = visible != nullptr;
  settings.visible_devices = visible ? visible : "";
  settings.kernels = text("EMULATED_CUDA_KERNELS", "");
  settings.trace_path = text("EMULATED_CUDA_TRACE", "");
  settings.faults = text("EMULATED_CUDA_FAULTS", "");
  if (settings.faults.starts_with("@")) settings.faults = content_of(settings.faults.substr(1));
  settings.mps_percentage = text("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "");
  settings.mps_memory_limit = text("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "");
  settings.mps_priority = text("CUDA_MPS_CLIENT_PRIORITY", "");
  settings.log_path = text("EMULATED_CUDA_LOG", "");
  return settings;
}

}  // namespace lambent::emulated_node
