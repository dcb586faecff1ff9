#include "emulator/emulated_node/settings.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "emulator/emulated_node/code_settings.h"

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

constexpr uint64_t kCacheBytes = uint64_t{128} << 20;
constexpr uint64_t kMostCacheBytes = uint64_t{4} << 30;  // as NVIDIA's driver has it
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

CodeSettings read_code_settings() {
  CodeSettings settings;
  settings.ptx_compiler = text("EMULATED_CUDA_PTX_COMPILER", "");
  settings.host_compiler = text("EMULATED_CUDA_HOST_COMPILER", "");
  settings.is_disabled = text("CUDA_DISABLE_PTX_JIT", "0") == "1";
  settings.search_path = text("PATH", "/usr/local/bin:/usr/bin:/bin");
  settings.temporary = text("TMPDIR", "/tmp");
  // NVIDIA's names for the cache of what was compiled; its place is beside the node by default.
  if (text("CUDA_CACHE_DISABLE", "0") != "1") {
    const std::string folder = text("CUDA_CACHE_PATH", "");
    settings.cache = folder.empty() ? "/tmp/emulated-cuda-" + std::to_string(getuid()) + ".cache"
                                    : folder + "/emulated-cuda";
  }
  char* end = nullptr;
  const std::string bytes = text("CUDA_CACHE_MAXSIZE", "");
  const uint64_t most = std::strtoull(bytes.c_str(), &end, 10);
  settings.cache_bytes =
      bytes.empty() || *end != '\0' ? kCacheBytes : std::min(most, kMostCacheBytes);
  return settings;
}

}  // namespace lambent::emulated_node
