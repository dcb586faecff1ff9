// What a sandbox of a function looks like: from a FunctionSpec and the node's paths to a
// LaunchPlan. Pure; used by SandboxHost on the loop thread.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/domain/function.h"
#include "core/domain/limits.h"
#include "node/sandbox/plan.h"
#include "node/worker/device_nodes.h"

namespace lambent::worker {

// The GPU driver as functions see it.
struct GpuDriver {
  // Holds libcuda.so.1 and libnvidia-ml.so.1; empty: this node has no GPU.
  std::string folder;
  // The emulated GPU's node file; empty for a real GPU.
  std::string emulated_node;
  // Those of a real GPU's driver; of each device only what runs on it sees.
  DeviceNodes nodes = {};
  // The names of its libraries, where the folder has others as well: images are shown these only.
  std::vector<std::string> libraries = {};
  // What CUDA_VISIBLE_DEVICES calls each device; one that is not here is called by its index.
  std::map<DeviceId, std::string> visible = {};
  // The host's processors near each device, where what uses it is kept; one that is not here is
  // near all.
  std::map<DeviceId, std::vector<uint32_t>> near = {};
};

// The Python packages of a function.
struct PythonEnvironment {
  std::string folder;                // on the host; empty: it has none
  std::vector<std::string> preload;  // modules that its zygote imports
};

// The container image of a function, and what is started in it.
struct SandboxImage {
  std::string folder;  // of its root file system on the host; empty: the function has no image
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;
  std::string working_directory;
  uint32_t user = sandbox::kNobodyInside;
};

// What all sandboxes of a node have in common.
struct SandboxSetting {
  std::string python_program = "/usr/bin/python3";
  std::string model_server =
      {};                     // lambent-model-server, the program of functions that serve models
  std::string python_folder;  // holds the packages lambent_runtime and lambent_cuda
  std::string shim_folder;
  // Holds the libcuda.so.1 of functions that share a GPU runtime; empty: there are no such
  // functions.
  std::string forward_folder;
  // Holds the CUDA runtime that works over the emulated GPU; empty: the GPUs are real, or there is
  // none.
  std::string emulated_runtime_folder = {};
  GpuDriver gpu;
  // Whether device memory is moved to the host while functions rest.
  bool memory_moves = true;
  // Devices whose memory is the host's own: it stays in any case.
  std::set<DeviceId> integrated = {};
  // What of it comes in again, for functions that do not say: not kWorker.
  WorkingSet working_set = WorkingSet::kWhole;
  // How managed memory (mode uvm) comes back to a device: prefetch, advise or faults
  // (docs/reference/shim.md).
  std::string managed_memory = "prefetch";
  unsigned most_processes = limits::kSandboxProcesses;
  NetworkBounds network = {};  // of what functions may ask for
  // The Python environment of a function's code. May be empty.
  std::function<Result<PythonEnvironment>(const FunctionSpec&)> environment_of = {};
  // The image of a function that has one. May be empty: then there are no images.
  std::function<Result<SandboxImage>(const FunctionSpec&)> image_of = {};
  // Where the function's mounts lie on the host, in their order, now that a sandbox of it starts.
  // May be empty: then there are no mounts.
  std::function<Result<std::vector<std::string>>(const FunctionSpec&)> folders_of_mounts = {};
};

// What a stage of a pipeline has beside what all sandboxes have.
struct StageProcessExtras {
  std::vector<sandbox::Bind> binds = {};
  std::map<std::string, std::string> environment = {};
  Bytes most_response = limits::kResponsePayload;  // it answers for all requests of a job
  size_t in_flight = 1;  // invocations that it may have and not have answered
};

struct SandboxRequest {
  SandboxId sandbox;
  DeviceId device;
  std::string code_folder;
  std::string ledger_path;  // empty if the function uses no GPU
  // Sockets on which its device memory is moved and gets its turn on the link; empty: it stays.
  std::string memory_path = {};
  std::string link_path = {};
  // Socket of the GPU runtime that it shares; empty: it has a driver of its own.
  std::string runtime_path = {};
  PythonEnvironment environment = {};
  SandboxImage image = {};
  // Where its mounts lie on the host, in their order.
  std::vector<std::string> mount_folders = {};
  StageProcessExtras extras = {};
  std::map<std::string, std::string> secret_files = {};
  // The other devices of one that takes several, and a ledger for each.
  std::vector<DeviceId> beside = {};
  std::vector<std::string> ledgers_beside = {};
};

// Whether the device memory of such a sandbox moves: that of all its devices, or none.
bool moves_memory(const SandboxSetting& setting, const FunctionSpec& spec, DeviceId device,
                  const std::vector<DeviceId>& beside);

// Where things lie inside a sandbox.
inline constexpr char kRuntimeFolder[] = "/var/runtime";
inline constexpr char kPythonFolder[] = "/opt/lambent/python";
inline constexpr char kModelServerFile[] = "/opt/lambent/model-server";
inline constexpr char kDriverFolder[] = "/opt/lambent/driver";
inline constexpr char kShimFolder[] = "/opt/lambent/shim";
inline constexpr char kNodeFile[] = "/opt/lambent/gpu-node";
inline constexpr char kLedgerFile[] = "/opt/lambent/ledger";
inline constexpr char kMemorySocket[] = "/opt/lambent/memory";
inline constexpr char kLinkSocket[] = "/opt/lambent/link";
inline constexpr char kForwardFolder[] = "/opt/lambent/forward";
inline constexpr char kForwardSocket[] = "/opt/lambent/runtime";
inline constexpr char kEmulatedRuntimeFolder[] = "/opt/lambent/emulated_runtime";

// What CUDA_VISIBLE_DEVICES calls the device.
std::string visible_as(const GpuDriver& gpu, DeviceId device);

// Shows the nodes of a real device, as far as the plan has them not yet.
void add_nodes(const GpuDriver& gpu, DeviceId device, sandbox::LaunchPlan& plan);

// Shows the driver and one device inside a sandbox, whose environment is there already; returns the
// driver's folder inside. `modelled`: an emulated device does not compute kernels, it only takes
// their time.
std::string add_driver(const GpuDriver& gpu, DeviceId device, bool modelled,
                       sandbox::LaunchPlan& plan);

// The function as it runs without a GPU: by the handler of its CPU variant, which it must have.
FunctionSpec cpu_variant_of(const FunctionSpec& spec);

// What a sandbox needs and is not there.
struct MissingFolder {
  Error error;
  const char* error_type;
};

// Sets what it is shown beside its code: packages, an image, mounts.
std::optional<MissingFolder> find_folders(const SandboxSetting& setting, const FunctionSpec& spec,
                                          SandboxRequest& request);

sandbox::LaunchPlan plan_sandbox(const SandboxSetting& setting, const FunctionSpec& spec,
                                 const SandboxRequest& request);

// The function's name as AWS writes it, the same as the Lambda frontend gives to clients.
std::string function_arn(const FunctionName& name);

}  // namespace lambent::worker
