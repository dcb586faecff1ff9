#include "node/worker/sandbox_plan.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "core/domain/command_line.h"
#include "core/domain/image_function.h"
#include "core/domain/model_function.h"
#include "core/domain/sandbox_concurrency.h"
#include "core/domain/version.h"
#include "node/worker/system_folder.h"

namespace lambent::worker {
namespace {

// Where layers have modules of Python.
constexpr char kLayersPython[] = "/opt/python";

using Environment = std::map<std::string, std::string>;

bool uses_gpu(const FunctionSpec& spec) { return spec.gpu.memory > Bytes(0); }

// A program of its package is named from where it starts, as in a shell.
std::vector<std::string> http_command(const FunctionSpec& spec, const std::string& python) {
  // What is not valid was refused when the function was deployed.
  auto read = command_words(spec.handler);
  std::vector<std::string> words = read.ok() ? std::move(*read) : std::vector<std::string>();
  if (words.empty()) words = {"./bootstrap"};
  std::string& program = words.front();
  if (program == kModelServer) {
    program = kModelServerFile;
  } else if (program == "python3" || program == "python") {
    program = python;
  } else if (!program.starts_with('/') && program.find('/') != std::string::npos) {
    const bool from_here = program.starts_with("./");
    program = std::string(sandbox::kCodeFolder) + "/" + program.substr(from_here ? 2 : 0);
  }
  return words;
}

std::vector<std::string> command_of(const SandboxSetting& setting, const FunctionSpec& spec,
                                    const SandboxRequest& request) {
  if (runs_image(spec)) return request.image.command;
  const std::string python = request.environment.folder.empty()
                                 ? setting.python_program
                                 : std::string(kPythonFolder) + "/bin/python";
  if (spec.kind == FunctionKind::kHttp) return http_command(spec, python);
  switch (spec.runtime) {
    case Runtime::kPython:
      return {python, "-m", "lambent_runtime", spec.handler};
    case Runtime::kProvided:
      break;
  }
  return {std::string(sandbox::kCodeFolder) + "/bootstrap"};
}

void add_lambda_variables(const FunctionSpec& spec, SandboxId sandbox, Environment& environment) {
  environment["AWS_LAMBDA_RUNTIME_API"] = sandbox::kRuntimeApiAddress;
  environment["AWS_LAMBDA_FUNCTION_NAME"] = function_of(spec.name).name;
  const std::string version = version_of(spec.name);
  environment["AWS_LAMBDA_FUNCTION_VERSION"] = version;
  if (sandbox_concurrency(spec) > 1) {
    environment["AWS_LAMBDA_MAX_CONCURRENCY"] = std::to_string(sandbox_concurrency(spec));
  }
  environment["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] = std::to_string(spec.memory.count >> 20);
  environment["AWS_LAMBDA_LOG_GROUP_NAME"] = "/aws/lambda/" + function_of(spec.name).name;
  environment["AWS_LAMBDA_LOG_STREAM_NAME"] = "[" + version + "]" + std::to_string(sandbox.value);
  environment["AWS_LAMBDA_INITIALIZATION_TYPE"] = "on-demand";
  environment["AWS_EXECUTION_ENV"] =
      "AWS_Lambda_" + (runs_image(spec) ? std::string("Image") : spec.runtime_name);
  environment["AWS_REGION"] = "us-east-1";
  environment["AWS_DEFAULT_REGION"] = "us-east-1";
}

// Puts ours behind what the function says, which is looked through first.
void add_folders(std::string_view ours, std::string& path) {
  if (!path.empty()) path += ':';
  path += ours;
}

// Of what the system's folders and the package have. A function may say its own, as in Lambda,
// where they are not those of the runtime.
void add_package_variables(const FunctionSpec& spec, Environment& environment) {
  environment["_HANDLER"] = spec.handler;
  environment["LAMBDA_TASK_ROOT"] = sandbox::kCodeFolder;
  environment["LAMBDA_RUNTIME_DIR"] = kRuntimeFolder;
  environment.insert({{"TZ", ":UTC"}, {"LANG", "C.UTF-8"}, {"HOME", "/tmp"}});
  add_folders("/usr/local/bin:/usr/bin:/bin:/opt/bin", environment["PATH"]);
  add_folders("/var/task:/var/task/lib:/opt/lib", environment["LD_LIBRARY_PATH"]);
}

// What programs of images expect to be there, unless the image or the function says otherwise.
void add_image_variables(const SandboxImage& image, Environment& environment) {
  environment.insert(image.environment.begin(), image.environment.end());
  environment.insert({"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"});
  environment.insert({"LAMBDA_TASK_ROOT", sandbox::kCodeFolder});
  environment.insert({"LAMBDA_RUNTIME_DIR", kRuntimeFolder});
  if (!image.command.empty()) environment.insert({"_HANDLER", image.command.back()});
}

// As Knative has them; there is no Runtime API for it.
void add_http_variables(const FunctionSpec& spec, Environment& environment) {
  environment["PORT"] = std::to_string(spec.http.port);
  environment["K_SERVICE"] = spec.name.name;
  environment["K_CONFIGURATION"] = spec.name.name;
  environment["K_REVISION"] = spec.name.name + "-" + std::to_string(spec.revision);
  environment["PYTHONUNBUFFERED"] = "1";
  environment.erase("AWS_LAMBDA_RUNTIME_API");
  environment.erase("_HANDLER");
}

// Behind what the function has itself, as in Lambda.
std::string python_of_layers(const FunctionSpec& spec) {
  const bool has_some = std::ranges::any_of(
      spec.mounts, [](const Mount& mount) { return mount.at == kLayersPython; });
  if (!has_some) return "";
  const std::string version = spec.runtime_name.starts_with("python") ? spec.runtime_name : "";
  std::string path = kLayersPython;
  if (!version.empty()) path += ":" + path + "/lib/" + version + "/site-packages";
  return path;
}

void add_python(const SandboxSetting& setting, const FunctionSpec& spec,
                sandbox::LaunchPlan& plan) {
  plan.binds.push_back({setting.python_folder, kRuntimeFolder});
  std::string& path = plan.environment["PYTHONPATH"];
  const std::string given = path;
  path = std::string(sandbox::kCodeFolder) + ":" + kRuntimeFolder;
  for (const std::string& more : {given, python_of_layers(spec)}) {
    if (!more.empty()) path += ":" + more;
  }
  plan.environment["PYTHONDONTWRITEBYTECODE"] = "1";
  plan.environment["PYTHONUNBUFFERED"] = "1";
}

// The interpreter in there finds the packages; the code goes before them.
void add_environment(const SandboxRequest& request, sandbox::LaunchPlan& plan) {
  if (request.environment.folder.empty()) return;
  plan.binds.push_back({request.environment.folder, kPythonFolder});
  std::string& path = plan.environment["PATH"];
  path = std::string(kPythonFolder) + "/bin:" + path;
  plan.environment["VIRTUAL_ENV"] = kPythonFolder;
}

// Variables that are read when Python starts or a library is loaded, which was before a fork; and
// those that all forks of a zygote have as it has them.
bool is_read_early(const std::string& name) {
  constexpr std::string_view kPrefixes[] = {"PYTHON",    "LD_",   "MALLOC_", "GLIBC_",
                                            "OMP_",      "GOMP_", "KMP_",    "MKL_",
                                            "OPENBLAS_", "ORT_",  "MLAS_",   "LC_"};
  constexpr std::string_view kNames[] = {"PATH", "HOME", "LANG", "TZ"};
  return std::ranges::find(kNames, name) != std::end(kNames) ||
         std::ranges::any_of(kPrefixes,
                             [&name](std::string_view prefix) { return name.starts_with(prefix); });
}

// Those of a function that takes several, as numbers 1 and up: each with a ledger of its own,
// beside that of the first.
void add_devices_beside(const GpuDriver& gpu, const SandboxRequest& request,
                        sandbox::LaunchPlan& plan) {
  if (request.beside.empty()) return;
  Environment& environment = plan.environment;
  std::vector<uint32_t>& near = plan.processors;
  for (size_t i = 0; i < request.beside.size(); ++i) {
    environment["CUDA_VISIBLE_DEVICES"] += "," + visible_as(gpu, request.beside[i]);
    if (gpu.emulated_node.empty()) add_nodes(gpu, request.beside[i], plan);
    plan.binds.push_back(
        {request.ledgers_beside[i], kLedgerFile + ("." + std::to_string(i + 1)), true});
    // Near any of them; one that is near all leaves no choice to make.
    const auto found = gpu.near.find(request.beside[i]);
    if (found == gpu.near.end()) near.clear();
    if (!near.empty()) near.insert(near.end(), found->second.begin(), found->second.end());
  }
  std::ranges::sort(near);
  near.erase(std::unique(near.begin(), near.end()), near.end());
  environment["LAMBENT_SHIM_GPUS"] = std::to_string(request.beside.size() + 1);
}

void add_gpu(const SandboxSetting& setting, const FunctionSpec& spec, const SandboxRequest& request,
             sandbox::LaunchPlan& plan) {
  const bool modelled = spec.gpu.launch_mode == GpuNeeds::LaunchMode::kModel;
  const std::string driver = add_driver(setting.gpu, request.device, modelled, plan);
  const std::string shim = kShimFolder;
  plan.binds.push_back({setting.shim_folder, shim});
  plan.binds.push_back({request.ledger_path, kLedgerFile, true});
  Environment& environment = plan.environment;
  environment["LD_PRELOAD"] = shim + "/liblambent_shim.so:" + shim + "/liblambent_shim_nvml.so";
  environment["LAMBENT_SHIM_DRIVER"] = driver + "/libcuda.so.1";
  environment["LAMBENT_SHIM_NVML"] = driver + "/libnvidia-ml.so.1";
  environment["LAMBENT_SHIM_LEDGER"] = kLedgerFile;
  add_devices_beside(setting.gpu, request, plan);
  if (!request.memory_path.empty()) {
    plan.binds.push_back({request.memory_path, kMemorySocket, true});
    environment["LAMBENT_SHIM_MEMORY"] = kMemorySocket;
    environment["LAMBENT_SHIM_MEMORY_MODE"] = name_of(spec.gpu.memory_mode);
    environment["LAMBENT_SHIM_UVM"] = setting.managed_memory;
    const bool says = spec.gpu.working_set != WorkingSet::kWorker;
    WorkingSet wanted = says ? spec.gpu.working_set : setting.working_set;
    // What is offloaded is not told apart by device.
    if (!request.beside.empty()) wanted = WorkingSet::kWhole;
    environment["LAMBENT_SHIM_WORKING_SET"] = name_of(wanted);
  }
  if (!request.link_path.empty()) {
    plan.binds.push_back({request.link_path, kLinkSocket, true});
    environment["LAMBENT_SHIM_LINK"] = kLinkSocket;
  }
  if (setting.gpu.emulated_node.empty()) return;
  // What an emulated device holds for the function is a file of the function's processes, with
  // holes where memory was given back; its pages, and at a memory scale those of what was moved to
  // the host, count for them as well.
  plan.limits.file_size = std::max(plan.limits.file_size, spec.gpu.memory * 2);
  plan.limits.memory += spec.gpu.memory * 2 * spec.gpu.count;
  // More managed memory than the device has is a risk only on a real one.
  environment["LAMBENT_SHIM_OVERSUBSCRIBE"] = "1";
}

void add_image(const SandboxImage& image, sandbox::LaunchPlan& plan) {
  add_image_variables(image, plan.environment);
  plan.code.clear();
  plan.working_directory = image.working_directory;
  plan.image = {.host_path = image.folder, .user = image.user};
}

void add_mounts(const FunctionSpec& spec, const SandboxRequest& request,
                sandbox::LaunchPlan& plan) {
  const size_t count = std::min(spec.mounts.size(), request.mount_folders.size());
  for (size_t i = 0; i < count; ++i) {
    sandbox::Bind bind{request.mount_folders[i], spec.mounts[i].at};
    bind.without_links = true;
    plan.binds.push_back(std::move(bind));
  }
}

// Its driver calls run elsewhere: it sees no device, no driver and no shim.
void add_shared_gpu(const SandboxSetting& setting, const SandboxRequest& request,
                    sandbox::LaunchPlan& plan) {
  plan.binds.push_back({setting.forward_folder, kForwardFolder});
  plan.binds.push_back({request.runtime_path, kForwardSocket, true});
  std::string& libraries = plan.environment["LD_LIBRARY_PATH"];
  libraries = std::string(kForwardFolder) + (libraries.empty() ? "" : ":") + libraries;
  plan.environment["LAMBENT_FORWARD_SOCKET"] = kForwardSocket;
}

// The libcudart of programs that nvcc linked to a shared one, behind what the function has itself.
// It comes before the system's: NVIDIA's does not work over an emulated GPU.
void add_emulated_runtime(const SandboxSetting& setting, sandbox::LaunchPlan& plan) {
  if (setting.emulated_runtime_folder.empty()) return;
  plan.binds.push_back({setting.emulated_runtime_folder, kEmulatedRuntimeFolder});
  add_folders(kEmulatedRuntimeFolder, plan.environment["LD_LIBRARY_PATH"]);
}

// What all sandboxes of a zygote have of their plans.
sandbox::ZygotePlan common_part(const sandbox::LaunchPlan& plan) {
  sandbox::ZygotePlan zygote;
  for (const char* name : {"PATH", "HOME", "LANG", "TZ", "LD_LIBRARY_PATH", "LD_PRELOAD",
                           "LAMBENT_SHIM_DRIVER", "LAMBENT_SHIM_NVML", "PYTHONPATH",
                           "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "VIRTUAL_ENV"}) {
    const auto found = plan.environment.find(name);
    if (found != plan.environment.end()) zygote.environment.insert(*found);
  }
  for (const sandbox::Bind& bind : plan.binds) {
    const bool is_common =
        std::ranges::any_of(std::array{kRuntimeFolder, kPythonFolder, kShimFolder, kDriverFolder,
                                       kForwardFolder, kEmulatedRuntimeFolder, kModelServerFile},
                            [&bind](const char* place) { return bind.sandbox_path == place; });
    if (is_common) zygote.binds.push_back(bind);
  }
  return zygote;
}

// What a handler's sandbox is forked from: Python with the runtime client and what the function's
// package names. It has none of the function's variables, nothing of its code and no GPU: the shim
// and the driver do nothing before the first CUDA call, which only a fork may make.
sandbox::ZygotePlan zygote_of_handler(const FunctionSpec& spec, const SandboxRequest& request,
                                      const sandbox::LaunchPlan& plan) {
  sandbox::ZygotePlan zygote = common_part(plan);
  zygote.argv = {plan.argv[0], "-m", "lambent_runtime.zygote"};
  for (const std::string& module : request.environment.preload) zygote.argv.push_back(module);
  zygote.key = "tenant " + std::to_string(spec.name.tenant.value);
  if (uses_gpu(spec)) {
    zygote.key += spec.gpu.runtime == GpuRuntime::kShared ? " shared GPU runtime" : " GPU";
  }
  if (!request.environment.folder.empty()) zygote.key += " " + request.environment.folder;
  for (const std::string& module : request.environment.preload) zygote.key += " " + module;
  // Where it looks for modules was decided when it started.
  if (const std::string path = python_of_layers(spec); !path.empty()) zygote.key += " " + path;
  return zygote;
}

// What a model's sandbox is forked from: its program with onnxruntime loaded, of which most of a
// start is for a small model, and nothing of the model.
sandbox::ZygotePlan zygote_of_model(const FunctionSpec& spec, const SandboxRequest& request,
                                    const sandbox::LaunchPlan& plan) {
  sandbox::ZygotePlan zygote = common_part(plan);
  zygote.argv = {kModelServerFile, "--zygote"};
  zygote.key = "tenant " + std::to_string(spec.name.tenant.value) + " models";
  zygote.key += " " + request.environment.folder;
  return zygote;
}

// What a sandbox is forked from. Tenants never share one, because forks have their addresses and
// their hash seed in common.
std::optional<sandbox::ZygotePlan> zygote_of(const FunctionSpec& spec,
                                             const SandboxRequest& request,
                                             const sandbox::LaunchPlan& plan) {
  const bool has_early = std::ranges::any_of(
      spec.environment, [](const auto& variable) { return is_read_early(variable.first); });
  const bool has_extras = !request.extras.environment.empty();
  if (spec.runtime != Runtime::kPython || has_early || has_extras) return std::nullopt;
  if (spec.kind == FunctionKind::kHandler) return zygote_of_handler(spec, request, plan);
  // Without packages there is no library to load.
  const bool has_packages = !request.environment.folder.empty();
  if (serves_model(spec) && !uses_gpu(spec) && has_packages) {
    return zygote_of_model(spec, request, plan);
  }
  return std::nullopt;
}

constexpr char kCompilerFolder[] = "/opt/lambent/compiler";

// What the emulated driver runs for PTX that the function makes, and what that reads, of the same
// installation. The compiler itself is the system's.
void add_compiler(const std::string& driver_folder, sandbox::LaunchPlan& plan) {
  const std::string place = "/lib/emulated";
  if (!driver_folder.ends_with(place)) return;
  const std::string prefix = driver_folder.substr(0, driver_folder.size() - place.size());
  for (const std::string part : {"/bin/lambent-bundle", "/share/lambent/include"}) {
    plan.binds.push_back({prefix + part, kCompilerFolder + part});
  }
  plan.environment["EMULATED_CUDA_PTX_COMPILER"] =
      std::string(kCompilerFolder) + "/bin/lambent-bundle";
}

}  // namespace

bool moves_memory(const SandboxSetting& setting, const FunctionSpec& spec, DeviceId device,
                  const std::vector<DeviceId>& beside) {
  const auto stays = [&](DeviceId each) { return setting.integrated.contains(each); };
  return spec.gpu.memory_mode != MemoryMode::kOff && setting.memory_moves && !stays(device) &&
         std::ranges::none_of(beside, stays);
}

std::string visible_as(const GpuDriver& gpu, DeviceId device) {
  const auto visible = gpu.visible.find(device);
  // Our numbers count from 1.
  return visible != gpu.visible.end() ? visible->second : std::to_string(device.value - 1);
}

void add_nodes(const GpuDriver& gpu, DeviceId device, sandbox::LaunchPlan& plan) {
  for (const sandbox::DeviceNode& node : gpu.nodes.of(device)) {
    if (std::ranges::find(plan.devices, node) == plan.devices.end()) plan.devices.push_back(node);
  }
}

std::string add_driver(const GpuDriver& gpu, DeviceId device, bool modelled,
                       sandbox::LaunchPlan& plan) {
  // A driver among the system's own libraries is there already.
  const bool is_system_folder = is_in_system(gpu.folder);
  const bool is_there = is_system_folder && !plan.image;
  const std::string driver = is_there ? gpu.folder : kDriverFolder;
  if (!is_system_folder) {
    plan.binds.push_back({gpu.folder, driver});
  } else if (plan.image) {
    // The host's other libraries are none of an image's.
    for (const std::string& library : gpu.libraries) {
      plan.binds.push_back({gpu.folder + "/" + library, driver + "/" + library});
    }
  }
  Environment& environment = plan.environment;
  std::string& libraries = environment["LD_LIBRARY_PATH"];
  libraries = driver + (libraries.empty() ? "" : ":") + libraries;
  // What runs inside sees the one device that it was given, as number 0.
  environment["CUDA_VISIBLE_DEVICES"] = visible_as(gpu, device);
  if (const auto near = gpu.near.find(device); near != gpu.near.end()) {
    plan.processors = near->second;
  }
  if (gpu.emulated_node.empty()) {
    add_nodes(gpu, device, plan);
    return driver;
  }
  add_compiler(gpu.folder, plan);
  plan.binds.push_back({gpu.emulated_node, kNodeFile, true});
  environment["EMULATED_CUDA_NODE"] = kNodeFile;
  environment["EMULATED_CUDA_LAUNCH_MODE"] = modelled ? "model" : "compute";
  return driver;
}

FunctionSpec cpu_variant_of(const FunctionSpec& spec) {
  FunctionSpec variant = spec;
  if (!spec.cpu_variant->handler.empty()) variant.handler = spec.cpu_variant->handler;
  variant.gpu = {};
  variant.cpu_variant.reset();
  // Libraries that look for GPUs by themselves find none.
  variant.environment["CUDA_VISIBLE_DEVICES"] = "";
  return variant;
}

sandbox::LaunchPlan plan_sandbox(const SandboxSetting& setting, const FunctionSpec& spec,
                                 const SandboxRequest& request) {
  sandbox::LaunchPlan plan;
  plan.sandbox = request.sandbox;
  plan.argv = command_of(setting, spec, request);
  plan.code = request.code_folder;
  plan.limits.memory = spec.memory;
  if (spec.cpus > 0) plan.limits.cpus = spec.cpus;
  plan.limits.processes = setting.most_processes;
  plan.limits.scratch = spec.scratch;
  plan.limits.shared_memory = spec.shared_memory;
  plan.limits.file_size = std::max(plan.limits.file_size, spec.scratch);
  // The user's variables first: ours win, but for those of add_package_variables().
  plan.environment = spec.environment;
  add_lambda_variables(spec, request.sandbox, plan.environment);
  if (runs_image(spec)) {
    add_image(request.image, plan);
  } else {
    add_package_variables(spec, plan.environment);
  }
  if (spec.kind == FunctionKind::kHttp) add_http_variables(spec, plan.environment);
  plan.environment["LAMBENT_DEVICE"] = uses_gpu(spec) ? "gpu" : "cpu";
  if (spec.runtime == Runtime::kPython) add_python(setting, spec, plan);
  add_environment(request, plan);
  if (serves_model(spec)) plan.binds.push_back({setting.model_server, kModelServerFile});
  add_mounts(spec, request, plan);
  if (uses_gpu(spec) && spec.gpu.runtime == GpuRuntime::kShared) {
    add_shared_gpu(setting, request, plan);
  } else if (uses_gpu(spec)) {
    add_gpu(setting, spec, request, plan);
  }
  if (uses_gpu(spec)) add_emulated_runtime(setting, plan);
  plan.secret_files = request.secret_files;
  const StageProcessExtras& extras = request.extras;
  plan.binds.insert(plan.binds.end(), extras.binds.begin(), extras.binds.end());
  for (const auto& [name, value] : extras.environment) plan.environment[name] = value;
  if (!spec.network.is_none()) plan.network = {spec.network, setting.network};
  plan.zygote = zygote_of(spec, request, plan);
  return plan;
}

std::optional<MissingFolder> find_folders(const SandboxSetting& setting, const FunctionSpec& spec,
                                          SandboxRequest& request) {
  if (setting.environment_of) {
    auto environment = setting.environment_of(spec);
    if (!environment.ok()) return MissingFolder{environment.error(), "Runtime.MissingPackages"};
    request.environment = std::move(*environment);
  }
  if (runs_image(spec)) {
    Result<SandboxImage> image =
        Error{ErrorCode::kFailedPrecondition, "this worker runs no images"};
    if (setting.image_of) image = setting.image_of(spec);
    if (!image.ok()) return MissingFolder{image.error(), "Runtime.MissingImage"};
    request.image = std::move(*image);
  }
  if (!spec.mounts.empty() && setting.folders_of_mounts) {
    auto folders = setting.folders_of_mounts(spec);
    if (!folders.ok()) return MissingFolder{folders.error(), "Runtime.MissingMount"};
    request.mount_folders = std::move(*folders);
  }
  return std::nullopt;
}

std::string function_arn(const FunctionName& name) {
  return "arn:aws:lambda:us-east-1:000000000000:function:" + name.name;
}

}  // namespace lambent::worker
