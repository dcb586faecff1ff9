#include "gpu/monitor/mig_layout.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>

#include "gpu/monitor/nvml_functions.h"

namespace lambent::monitor {
namespace {

using mig::GpuState;
using mig::InstanceState;
using mig::Placement;

constexpr size_t kMostProcesses = 1'024;

bool has_what_is_needed(const NvmlFunctions& call) {
  return call.init && call.shutdown && call.device_get_count && call.device_get_handle_by_index &&
         call.device_get_uuid && call.device_get_name && call.device_get_memory_info &&
         call.device_get_compute_running_processes && call.device_set_mig_mode &&
         call.device_get_mig_mode && call.device_get_gpu_instance_profile_info &&
         call.device_create_gpu_instance_with_placement && call.gpu_instance_destroy &&
         call.device_get_gpu_instances && call.gpu_instance_get_info &&
         call.gpu_instance_get_compute_instance_profile_info &&
         call.gpu_instance_create_compute_instance && call.compute_instance_destroy &&
         call.gpu_instance_get_compute_instances && call.device_get_max_mig_device_count &&
         call.device_get_mig_device_handle_by_index && call.device_get_gpu_instance_id;
}

Error error_of(nvmlReturn_t status, const std::string& doing) {
  switch (status) {
    case NVML_ERROR_NO_PERMISSION:
      return {ErrorCode::kPermissionDenied, doing + ": no permission; it takes an administrator"};
    case NVML_ERROR_IN_USE:
      return {ErrorCode::kFailedPrecondition, doing + ": it is in use"};
    case NVML_ERROR_NOT_SUPPORTED:
      return {ErrorCode::kFailedPrecondition, doing + ": the device does not support it"};
    case NVML_ERROR_INSUFFICIENT_RESOURCES:
      return {ErrorCode::kFailedPrecondition, doing + ": there is no room"};
    case NVML_ERROR_GPU_IS_LOST:
      return {ErrorCode::kUnavailable, doing + ": the device is lost"};
    default:
      return {ErrorCode::kInternal,
              doing + ": NVML error " + std::to_string(static_cast<int>(status))};
  }
}

}  // namespace

struct MigLayout::State {
  void* library = nullptr;
  bool initialised = false;
  NvmlFunctions call;

  ~State() {
    if (initialised) call.shutdown();
    if (library) dlclose(library);
  }

  Result<unsigned> count() const;
  Result<nvmlDevice_t> handle(uint32_t index) const;
  GpuState read(uint32_t index, nvmlDevice_t device) const;
  void read_profiles(nvmlDevice_t device, GpuState& gpu) const;
  void read_instances(nvmlDevice_t device, GpuState& gpu) const;
  void read_uuids(nvmlDevice_t device, GpuState& gpu) const;
  void add_processes(nvmlDevice_t device, GpuState& gpu) const;
  std::vector<nvmlGpuInstance_t> instances(nvmlDevice_t device, int profile_id) const;
  Result<void> destroy(nvmlDevice_t device, const Placement& placement) const;
  Result<void> create(nvmlDevice_t device, const Placement& placement) const;
};

Result<std::unique_ptr<MigLayout>> MigLayout::open(const std::string& path) {
  auto state = std::make_unique<State>();
  state->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!state->library) {
    const char* why = dlerror();
    return Error{ErrorCode::kUnavailable, "load NVML: " + std::string(why ? why : path)};
  }
  state->call.load(state->library);
  if (!has_what_is_needed(state->call)) {
    return Error{ErrorCode::kUnavailable, "load NVML: " + path + " is too old for MIG"};
  }
  const nvmlReturn_t started = state->call.init();
  if (started != NVML_SUCCESS) {
    return Error{ErrorCode::kUnavailable, error_of(started, "start NVML").message};
  }
  state->initialised = true;
  return std::unique_ptr<MigLayout>(new MigLayout(std::move(state)));
}

Result<unsigned> MigLayout::State::count() const {
  unsigned count = 0;
  const nvmlReturn_t status = call.device_get_count(&count);
  if (status != NVML_SUCCESS) return error_of(status, "count devices");
  return count;
}

Result<nvmlDevice_t> MigLayout::State::handle(uint32_t index) const {
  ASSIGN_OR_RETURN(const unsigned most, count());
  if (index >= most) {
    return Error{ErrorCode::kNotFound, "there is no device " + std::to_string(index) + "; there " +
                                           (most == 1 ? "is 1" : "are " + std::to_string(most))};
  }
  nvmlDevice_t device = nullptr;
  const nvmlReturn_t status = call.device_get_handle_by_index(index, &device);
  if (status != NVML_SUCCESS) return error_of(status, "open device " + std::to_string(index));
  return device;
}

GpuState MigLayout::State::read(uint32_t index, nvmlDevice_t device) const {
  GpuState gpu{.index = index};
  std::array<char, NVML_DEVICE_UUID_V2_BUFFER_SIZE> text{};
  if (call.device_get_uuid(device, text.data(), text.size()) == NVML_SUCCESS)
    gpu.uuid = text.data();
  text = {};
  if (call.device_get_name(device, text.data(), text.size()) == NVML_SUCCESS)
    gpu.name = text.data();
  nvmlMemory_t memory = {};
  if (call.device_get_memory_info(device, &memory) == NVML_SUCCESS) {
    gpu.memory_mib = memory.total >> 20;
  }
  unsigned current = 0, pending = 0;
  gpu.can = call.device_get_mig_mode(device, &current, &pending) == NVML_SUCCESS;
  gpu.enabled = gpu.can && current == NVML_DEVICE_MIG_ENABLE;
  gpu.pending = gpu.can && pending == NVML_DEVICE_MIG_ENABLE;
  add_processes(device, gpu);
  if (!gpu.can) return gpu;
  read_profiles(device, gpu);
  if (gpu.enabled) {
    read_instances(device, gpu);
    read_uuids(device, gpu);
  }
  return gpu;
}

void MigLayout::State::read_profiles(nvmlDevice_t device, GpuState& gpu) const {
  for (unsigned kind = 0; kind < NVML_GPU_INSTANCE_PROFILE_COUNT; ++kind) {
    nvmlGpuInstanceProfileInfo_t info = {};
    if (call.device_get_gpu_instance_profile_info(device, kind, &info) != NVML_SUCCESS) continue;
    gpu.profiles.push_back({static_cast<int>(info.id), static_cast<int>(info.sliceCount),
                            static_cast<int>(info.multiprocessorCount),
                            static_cast<int>(info.memorySizeMB)});
  }
}

std::vector<nvmlGpuInstance_t> MigLayout::State::instances(nvmlDevice_t device,
                                                           int profile_id) const {
  // NVML asks for room for as many as a device can have at all.
  std::array<nvmlGpuInstance_t, 64> found{};
  unsigned count = found.size();
  const nvmlReturn_t status = call.device_get_gpu_instances(
      device, static_cast<unsigned>(profile_id), found.data(), &count);
  if (status != NVML_SUCCESS) return {};
  return {found.begin(), found.begin() + std::min<size_t>(count, found.size())};
}

void MigLayout::State::read_instances(nvmlDevice_t device, GpuState& gpu) const {
  for (const mig::ProfileFacts& profile : gpu.profiles) {
    for (const nvmlGpuInstance_t instance : instances(device, profile.id)) {
      nvmlGpuInstanceInfo_t info = {};
      if (call.gpu_instance_get_info(instance, &info) != NVML_SUCCESS) continue;
      gpu.instances.push_back({.id = info.id,
                               .profile_id = static_cast<int>(info.profileId),
                               .start = static_cast<int>(info.placement.start)});
    }
  }
  std::sort(gpu.instances.begin(), gpu.instances.end(),
            [](const InstanceState& a, const InstanceState& b) { return a.start < b.start; });
}

void MigLayout::State::read_uuids(nvmlDevice_t device, GpuState& gpu) const {
  unsigned count = 0;
  if (call.device_get_max_mig_device_count(device, &count) != NVML_SUCCESS) return;
  for (unsigned place = 0; place < count; ++place) {
    nvmlDevice_t slice = nullptr;
    unsigned id = 0;
    std::array<char, NVML_DEVICE_UUID_V2_BUFFER_SIZE> text{};
    if (call.device_get_mig_device_handle_by_index(device, place, &slice) != NVML_SUCCESS ||
        call.device_get_gpu_instance_id(slice, &id) != NVML_SUCCESS ||
        call.device_get_uuid(slice, text.data(), text.size()) != NVML_SUCCESS) {
      continue;
    }
    for (InstanceState& instance : gpu.instances) {
      if (instance.id == id) instance.uuids.emplace_back(text.data());
    }
    add_processes(slice, gpu);
  }
}

void MigLayout::State::add_processes(nvmlDevice_t device, GpuState& gpu) const {
  for (const auto running :
       {call.device_get_compute_running_processes, call.device_get_graphics_running_processes}) {
    if (!running) continue;
    std::vector<nvmlProcessInfo_t> processes(kMostProcesses);
    unsigned count = processes.size();
    const nvmlReturn_t status = running(device, &count, processes.data());
    if (status != NVML_SUCCESS && status != NVML_ERROR_INSUFFICIENT_SIZE) continue;
    for (size_t i = 0; i < std::min<size_t>(count, processes.size()); ++i) {
      const uint32_t pid = processes[i].pid;
      const auto end = gpu.processes.end();
      if (std::find(gpu.processes.begin(), end, pid) == end) gpu.processes.push_back(pid);
    }
  }
}

Result<void> MigLayout::State::destroy(nvmlDevice_t device, const Placement& placement) const {
  const std::string doing = "destroy " + mig::text_of({placement});
  for (const nvmlGpuInstance_t instance : instances(device, placement.profile->id)) {
    nvmlGpuInstanceInfo_t info = {};
    if (call.gpu_instance_get_info(instance, &info) != NVML_SUCCESS ||
        info.placement.start != static_cast<unsigned>(placement.start)) {
      continue;
    }
    for (unsigned kind = 0; kind < NVML_COMPUTE_INSTANCE_PROFILE_COUNT; ++kind) {
      nvmlComputeInstanceProfileInfo_t profile = {};
      if (call.gpu_instance_get_compute_instance_profile_info(
              instance, kind, NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, &profile) !=
          NVML_SUCCESS) {
        continue;
      }
      std::array<nvmlComputeInstance_t, 64> computes{};
      unsigned count = computes.size();
      if (call.gpu_instance_get_compute_instances(instance, profile.id, computes.data(), &count) !=
          NVML_SUCCESS) {
        continue;
      }
      for (size_t i = 0; i < std::min<size_t>(count, computes.size()); ++i) {
        const nvmlReturn_t status = call.compute_instance_destroy(computes[i]);
        if (status != NVML_SUCCESS) return error_of(status, doing);
      }
    }
    const nvmlReturn_t status = call.gpu_instance_destroy(instance);
    if (status != NVML_SUCCESS) return error_of(status, doing);
    return {};
  }
  return Error{ErrorCode::kFailedPrecondition, doing + ": it is not there any more"};
}

Result<void> MigLayout::State::create(nvmlDevice_t device, const Placement& placement) const {
  const std::string doing = "create " + mig::text_of({placement});
  const nvmlGpuInstancePlacement_t place = {
      static_cast<unsigned>(placement.start),
      static_cast<unsigned>(placement.profile->memory_slices)};
  nvmlGpuInstance_t instance = nullptr;
  nvmlReturn_t status = call.device_create_gpu_instance_with_placement(
      device, static_cast<unsigned>(placement.profile->id), &place, &instance);
  if (status != NVML_SUCCESS) return error_of(status, doing);
  for (unsigned kind = 0; kind < NVML_COMPUTE_INSTANCE_PROFILE_COUNT; ++kind) {
    nvmlComputeInstanceProfileInfo_t profile = {};
    if (call.gpu_instance_get_compute_instance_profile_info(
            instance, kind, NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, &profile) !=
            NVML_SUCCESS ||
        profile.sliceCount != static_cast<unsigned>(placement.profile->slices)) {
      continue;
    }
    nvmlComputeInstance_t compute = nullptr;
    status = call.gpu_instance_create_compute_instance(instance, profile.id, &compute);
    if (status == NVML_SUCCESS) return {};
    // An instance that no process can compute on is worse than none.
    call.gpu_instance_destroy(instance);
    return error_of(status, doing);
  }
  call.gpu_instance_destroy(instance);
  return Error{ErrorCode::kInternal, doing + ": it has no compute instance of its whole size"};
}

MigLayout::MigLayout(std::unique_ptr<State> state) : state_(std::move(state)) {}
MigLayout::~MigLayout() = default;

bool MigLayout::is_emulated() const {
  std::array<char, 81> version{};
  return state_->call.system_get_driver_version &&
         state_->call.system_get_driver_version(version.data(), version.size()) == NVML_SUCCESS &&
         std::string_view(version.data()).ends_with("-emulated");
}

std::vector<GpuState> MigLayout::gpus() const {
  std::vector<GpuState> gpus;
  const auto count = state_->count();
  for (uint32_t index = 0; count.ok() && index < *count; ++index) {
    const auto device = state_->handle(index);
    gpus.push_back(device.ok() ? state_->read(index, *device) : GpuState{.index = index});
  }
  return gpus;
}

Result<GpuState> MigLayout::gpu(uint32_t index) const {
  ASSIGN_OR_RETURN(const nvmlDevice_t device, state_->handle(index));
  return state_->read(index, device);
}

namespace {

Result<void> check_idle(const GpuState& gpu) {
  if (gpu.processes.empty()) return {};
  std::string pids;
  for (const uint32_t pid : gpu.processes) pids += (pids.empty() ? "" : ", ") + std::to_string(pid);
  return Error{ErrorCode::kFailedPrecondition, "device " + std::to_string(gpu.index) +
                                                   " is in use, by process " + pids +
                                                   "; nothing was changed"};
}

}  // namespace

Result<void> MigLayout::set_enabled(uint32_t index, bool enabled) {
  ASSIGN_OR_RETURN(const nvmlDevice_t device, state_->handle(index));
  const GpuState before = state_->read(index, device);
  if (before.enabled == enabled && before.pending == enabled) return {};
  RETURN_IF_ERROR(check_idle(before));
  const std::string doing = std::string("turn MIG mode ") + (enabled ? "on" : "off") +
                            " on device " + std::to_string(index);
  nvmlReturn_t activation = NVML_SUCCESS;
  const nvmlReturn_t status = state_->call.device_set_mig_mode(
      device, enabled ? NVML_DEVICE_MIG_ENABLE : NVML_DEVICE_MIG_DISABLE, &activation);
  if (status != NVML_SUCCESS) return error_of(status, doing);
  if (state_->read(index, device).enabled != enabled) {
    return Error{ErrorCode::kFailedPrecondition,
                 doing + ": it comes into force when the device is reset (nvidia-smi --gpu-reset)"};
  }
  return {};
}

Result<void> MigLayout::apply(uint32_t index, const mig::Change& change) {
  ASSIGN_OR_RETURN(const nvmlDevice_t device, state_->handle(index));
  const GpuState before = state_->read(index, device);
  RETURN_IF_ERROR(check_idle(before));
  std::vector<Placement> expected = change.keep;
  expected.insert(expected.end(), change.destroy.begin(), change.destroy.end());
  const bool as_planned =
      before.instances.size() == expected.size() &&
      std::all_of(expected.begin(), expected.end(), [&](const Placement& each) {
        return std::any_of(
            before.instances.begin(), before.instances.end(), [&](const InstanceState& instance) {
              return instance.profile_id == each.profile->id && instance.start == each.start;
            });
      });
  if (!as_planned) {
    return Error{ErrorCode::kFailedPrecondition,
                 "device " + std::to_string(index) +
                     " is not cut as this was planned for; nothing was changed"};
  }
  for (const Placement& each : change.destroy) RETURN_IF_ERROR(state_->destroy(device, each));
  for (const Placement& each : change.create) RETURN_IF_ERROR(state_->create(device, each));
  return {};
}

}  // namespace lambent::monitor
