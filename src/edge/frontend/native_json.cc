#include "edge/frontend/native_json.h"

#include <nlohmann/json.hpp>

#include "core/domain/slice.h"
#include "edge/frontend/json_text.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

// Divided, so that whole seconds read as such.
double seconds_of(Duration duration) { return static_cast<double>(duration.count()) / 1e9; }

json to_json(const std::optional<CpuVariant>& variant) {
  if (!variant) return nullptr;
  return {{"handler", variant->handler}, {"gpu_speedup", variant->gpu_speedup}};
}

json to_json(const FunctionStatus& status) {
  const FunctionSpec& spec = status.spec;
  const bool models = spec.gpu.launch_mode == GpuNeeds::LaunchMode::kModel;
  return {
      {"name", spec.name.name},
      {"kind", name_of(spec.kind)},
      {"revision", spec.revision},
      {"runtime", spec.runtime_name},
      {"handler", spec.handler},
      {"timeout_seconds", seconds_of(spec.timeout)},
      {"memory_bytes", spec.memory.count},
      {"gpu_memory_bytes", spec.gpu.memory.count},
      {"launch_mode", models ? "model" : "compute"},
      {"memory_mode", name_of(spec.gpu.memory_mode)},
      {"working_set", name_of(spec.gpu.working_set)},
      {"checkpoint", spec.gpu.checkpoint},
      {"gpu_runtime", name_of(spec.gpu.runtime)},
      {"gpu_domain", spec.gpu.domain},
      {"gpu_share", spec.gpu.share},
      {"cpu_variant", to_json(spec.cpu_variant)},
      {"weight", spec.weight},
      {"max_concurrency", spec.max_concurrency},
      {"code_sha256", spec.code_sha256},
      {"code_bytes", spec.code_size.count},
      {"last_modified_seconds", seconds_of(spec.last_modified)},
      {"queued", status.queued},
      {"running", status.running},
      {"completed", status.completed},
      {"sandboxes", status.sandboxes},
  };
}

json to_json(const SandboxStatus& status) {
  return {
      {"id", status.id.value},
      {"function", status.function.name},
      {"state", status.state},
      {"pid", status.pid},
      {"device", status.device.value},
      {"gpu", status.device == DeviceId(0) ? json() : json(place_name(status.device))},
      {"age_seconds", seconds_of(status.age)},
      {"invocations", status.invocations},
      {"device_memory_bytes", status.device_memory.count},
      {"device_memory_place", status.device_memory_place},
      {"host_memory_bytes", status.host_memory.count},
  };
}

template <typename T>
json list(const char* key, const std::vector<T>& values) {
  json array = json::array();
  for (const T& value : values) array.push_back(to_json(value));
  return {{key, std::move(array)}};
}

}  // namespace

std::string function_list(const std::vector<FunctionStatus>& functions, const std::string& next) {
  json body = list("functions", functions);
  if (!next.empty()) body["next"] = next;
  return to_text(body);
}

std::string sandbox_list(const std::vector<SandboxStatus>& sandboxes) {
  return to_text(list("sandboxes", sandboxes));
}

}  // namespace lambent::frontend
