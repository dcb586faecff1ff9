#include "node/worker/executor_plan.h"

#include <algorithm>

#include "core/domain/limits.h"
#include "gpu/forward_ring/greeting.h"
#include "node/sandbox/limits.h"
#include "node/worker/system_folder.h"

namespace lambent::worker {
namespace {

// As many as four clients may have.
constexpr unsigned kEmulatedStreams = 4096;

}  // namespace

std::vector<DeviceId> devices_seen(const ExecutorSetting& setting, const ExecutorRequest& request) {
  const auto is_instance = [&](DeviceId each) {
    return visible_as(setting.gpu, each).starts_with("MIG");
  };
  std::vector<DeviceId> seen = {request.device};
  if (!setting.share_objects || is_instance(request.device)) return seen;
  for (const auto& [other, name] : setting.gpu.visible) {
    const bool is_hidden = request.hidden.contains(other);
    if (other != request.device && !is_instance(other) && !is_hidden) seen.push_back(other);
  }
  return seen;
}

namespace {

// What it loads beside itself lies in its folder.
void add_cublas(const std::vector<std::string>& libraries, sandbox::LaunchPlan& plan) {
  for (size_t i = 0; i < libraries.size(); ++i) {
    std::string path = libraries[i];
    if (!is_in_system(path)) {
      const size_t end = path.rfind('/');
      const std::string folder = kCublasFolder + std::to_string(i);
      plan.binds.push_back({path.substr(0, end), folder});
      path = folder + path.substr(end);
    }
    plan.argv.insert(plan.argv.end(), {"--cublas", path});
  }
}

}  // namespace

sandbox::LaunchPlan plan_executor(const ExecutorSetting& setting, const ExecutorRequest& request) {
  sandbox::LaunchPlan plan;
  plan.sandbox = request.executor;
  plan.argv = {kExecutorProgram,
               "--socket",
               kExecutorSocket,
               "--pool-rule",
               std::string(name_of(setting.pool)),
               "--pool-hold-ms",
               std::to_string(std::chrono::duration_cast<milliseconds>(setting.pool_hold).count())};
  if (!setting.transfers_take_turns) {
    plan.argv.insert(plan.argv.end(), {"--first-come", "--transfer-batch", "0"});
  }
  plan.working_directory = "/tmp";
  plan.hostname = "executor";
  plan.environment = {{"PATH", "/usr/local/bin:/usr/bin:/bin"}, {"LANG", "C.UTF-8"}};
  plan.binds = {{setting.program, kExecutorProgram}, {request.socket_path, kExecutorSocket, true}};
  if (!request.link_path.empty()) {
    plan.argv.insert(plan.argv.end(), {"--link", kLinkSocket});
    plan.binds.push_back({request.link_path, kLinkSocket, true});
  }
  plan.limits.memory = setting.host_memory;
  // Threads count: one for each process that is served, beside its own and the driver's.
  plan.limits.processes += forward_ring::kMostServedProcesses;
  // To an emulated device each stream that was used is one as well.
  if (!setting.gpu.emulated_node.empty()) plan.limits.processes += kEmulatedStreams;
  plan.limits.open_files = limits::kSandboxOpenFiles * 4;
  plan.limits.scratch = limits::kUnzippedCode * 4;
  // An emulated device's memory is a file of the process, with holes where memory was given back.
  plan.limits.file_size = std::max(plan.limits.file_size, setting.device_memory * 2);
  add_driver(setting.gpu, request.device, request.modelled, plan);
  std::string visible;
  for (const DeviceId device : devices_seen(setting, request)) {
    visible += (visible.empty() ? "" : ",") + visible_as(setting.gpu, device);
    add_nodes(setting.gpu, device, plan);
  }
  plan.environment["CUDA_VISIBLE_DEVICES"] = visible;
  add_cublas(setting.cublas, plan);
  return plan;
}

}  // namespace lambent::worker
