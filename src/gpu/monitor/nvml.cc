#include "gpu/monitor/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/domain/slice.h"
#include "gpu/monitor/near_cpus.h"
#include "gpu/monitor/nvml_functions.h"
#include "gpu/monitor/xid.h"

namespace lambent::monitor {
namespace {

using protocol::DeviceFault;
using protocol::DeviceHealth;
using protocol::DeviceInventory;
using protocol::DeviceReading;
using protocol::MemoryRepair;

constexpr size_t kMostNearCpus = 1024;  // of which NVML is asked
constexpr size_t kMostComplaints = 64;  // that wait to be taken
constexpr unsigned kNoInstance = 0xFFFFFFFFu;
constexpr size_t kMostProcesses = 256;  // of an integrated device, whose memory is summed up

bool has_what_is_needed(const NvmlFunctions& functions) {
  return functions.init != nullptr && functions.shutdown != nullptr &&
         functions.device_get_count != nullptr && functions.device_get_handle_by_index != nullptr &&
         functions.device_get_uuid != nullptr && functions.device_get_memory_info != nullptr;
}

Error unavailable(const std::string& what) { return Error{ErrorCode::kUnavailable, what}; }

// By number: nvmlErrorString may be missing where little works.
std::string status_text(nvmlReturn_t status) {
  if (status == NVML_ERROR_DRIVER_NOT_LOADED) return "the driver is not loaded";
  if (status == NVML_ERROR_NO_PERMISSION) return "no permission";
  if (status == NVML_ERROR_LIB_RM_VERSION_MISMATCH) return "library and driver do not match";
  return "NVML error " + std::to_string(static_cast<int>(status));
}

// The names of instances end with their profile: "NVIDIA A100-SXM4-80GB MIG 2g.20gb".
std::string profile_of(const std::string& name) {
  constexpr std::string_view kMark = " MIG ";
  const size_t mark = name.rfind(kMark);
  return mark == std::string::npos ? name : name.substr(mark + kMark.size());
}

DeviceHealth health_of(nvmlReturn_t status) {
  const bool lost = status == NVML_ERROR_GPU_IS_LOST || status == NVML_ERROR_RESET_REQUIRED;
  return lost ? DeviceHealth::kLost : DeviceHealth::kUnreadable;
}

}  // namespace

struct Nvml::State {
  void* library = nullptr;
  bool initialised = false;
  NvmlFunctions call;
  // Whether NVML tells of a device's Xids; one that refused is not asked again.
  enum class Watch { kNotYet, kYes, kRefused };
  // A device of the inventory: its own handle, and that of the whole device that it is or is of.
  struct Handle {
    nvmlDevice_t own = nullptr;
    nvmlDevice_t whole = nullptr;
    unsigned gpu_instance = kNoInstance;
    Watch watch = Watch::kNotYet;  // of the whole device
  };
  std::vector<Handle> handles;
  nvmlEventSet_t events = nullptr;  // null: there are none, or the set could not be made
  bool events_broke = false;        // at the last wait
  std::vector<std::string> complaints;
  std::string sysfs;
  std::vector<DriverFacts> facts;
  unsigned counted = 0;  // whole devices, by NVML
  std::vector<DeviceInventory> devices;

  ~State() {
    if (events != nullptr) call.event_set_free(events);
    if (initialised) call.shutdown();
    if (library != nullptr) dlclose(library);
  }
  void add_device(uint32_t index);
  void add(const Handle& handle, DeviceInventory device);
  std::string near_cpus(nvmlDevice_t whole) const;
  // An integrated device has no memory of its own that NVML would tell of: it is then as large as
  // CUDA's driver says, and so much of it is used as its processes hold.
  nvmlReturn_t memory_of(nvmlDevice_t handle, const DeviceInventory& device,
                         nvmlMemory_t& memory) const;
  // How many instances a device in MIG mode has, places that are empty included; 0: it is whole.
  unsigned places(nvmlDevice_t handle) const;
  void add_instances(nvmlDevice_t handle, uint32_t gpu, unsigned places);
  // Whether the handle is that of an instance which was made in the place of one that was
  // destroyed.
  bool is_another_instance(size_t place) const;
  DeviceReading read(size_t place) const;
  void read_memory_errors(nvmlDevice_t whole, DeviceReading& reading) const;
  void make_event_set();
  void watch_those_that_answer();
  void complain(const std::string& what);
};

Result<std::unique_ptr<Nvml>> Nvml::open(const std::string& path, const std::string& sysfs,
                                         std::vector<DriverFacts> facts) {
  auto state = std::make_unique<State>();
  state->sysfs = sysfs;
  state->facts = std::move(facts);
  state->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (state->library == nullptr) {
    const char* why = dlerror();
    return unavailable("load NVML: " + std::string(why == nullptr ? path : why));
  }
  state->call.load(state->library);
  if (!has_what_is_needed(state->call)) return unavailable("load NVML: " + path + " is too old");
  const nvmlReturn_t started = state->call.init();
  if (started != NVML_SUCCESS) return unavailable("start NVML: " + status_text(started));
  state->initialised = true;
  unsigned count = 0;
  const nvmlReturn_t counted = state->call.device_get_count(&count);
  if (counted != NVML_SUCCESS) return unavailable("count devices: " + status_text(counted));
  state->counted = std::min<unsigned>(count, protocol::kMostDevices);
  for (uint32_t index = 0; index < state->counted; ++index) state->add_device(index);
  if (count > state->counted || state->devices.size() > protocol::kMostDevices) {
    state->complain("a worker uses " + std::to_string(protocol::kMostDevices) +
                    " GPUs and MIG instances at most; the others are left out");
    const size_t most = std::min(state->devices.size(), protocol::kMostDevices);
    state->devices.resize(most);
    state->handles.resize(most);
  }
  state->make_event_set();
  state->watch_those_that_answer();
  return std::unique_ptr<Nvml>(new Nvml(std::move(state)));
}

// A device that cannot be opened (not this user's, or lost so that it has no handle) is left out;
// its index stays free. One that is lost and has a handle is told of, with no memory, so that its
// readings say what is wrong.
void Nvml::State::add_device(uint32_t index) {
  nvmlDevice_t handle = nullptr;
  if (call.device_get_handle_by_index(index, &handle) != NVML_SUCCESS) return;
  if (const unsigned count = places(handle); count > 0) return add_instances(handle, index, count);
  DeviceInventory device;
  device.index = index;
  add({.own = handle, .whole = handle}, std::move(device));
}

unsigned Nvml::State::places(nvmlDevice_t handle) const {
  unsigned current = 0, pending = 0, count = 0;
  if (call.device_get_mig_mode == nullptr || call.device_get_max_mig_device_count == nullptr ||
      call.device_get_mig_device_handle_by_index == nullptr ||
      call.device_get_mig_mode(handle, &current, &pending) != NVML_SUCCESS || current == 0 ||
      call.device_get_max_mig_device_count(handle, &count) != NVML_SUCCESS) {
    return 0;
  }
  return std::min(count, kInstancesOfGpu);
}

void Nvml::State::add_instances(nvmlDevice_t handle, uint32_t gpu, unsigned places) {
  for (unsigned place = 0; place < places; ++place) {
    nvmlDevice_t instance = nullptr;
    if (call.device_get_mig_device_handle_by_index(handle, place, &instance) != NVML_SUCCESS) {
      continue;
    }
    DeviceInventory device;
    device.index = mig_instance(gpu, place).value - 1;
    nvmlDeviceAttributes_t attributes = {};
    if (call.device_get_attributes != nullptr &&
        call.device_get_attributes(instance, &attributes) == NVML_SUCCESS) {
      device.multiprocessors = attributes.multiprocessorCount;
    }
    Handle both{.own = instance, .whole = handle};
    if (call.device_get_gpu_instance_id == nullptr ||
        call.device_get_gpu_instance_id(instance, &both.gpu_instance) != NVML_SUCCESS) {
      both.gpu_instance = kNoInstance;
    }
    if (both.gpu_instance != kNoInstance) device.gpu_instance = both.gpu_instance;
    unsigned compute_instance = 0;
    if (call.device_get_compute_instance_id != nullptr &&
        call.device_get_compute_instance_id(instance, &compute_instance) == NVML_SUCCESS) {
      device.compute_instance = compute_instance;
    }
    add(both, std::move(device));
  }
}

void Nvml::State::add(const Handle& both, DeviceInventory device) {
  const nvmlDevice_t handle = both.own;
  char text[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = {};
  if (call.device_get_uuid(handle, text, sizeof(text)) == NVML_SUCCESS) device.uuid = text;
  char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE] = {};
  if (call.device_get_name != nullptr &&
      call.device_get_name(handle, name, sizeof(name)) == NVML_SUCCESS) {
    device.name = name;
  }
  if (is_mig_instance(DeviceId(device.index + 1))) device.profile = profile_of(device.name);
  const bool is_whole = device.profile.empty();
  if (const DriverFacts* known = is_whole ? facts_of(facts, device.uuid, counted) : nullptr) {
    device.integrated = known->integrated;
    if (known->integrated) device.memory_total = known->memory;
  }
  nvmlMemory_t memory = {};
  const nvmlReturn_t status = memory_of(handle, device, memory);
  if (status == NVML_SUCCESS) device.memory_total = Bytes(memory.total);
  nvmlUtilization_t utilization = {};
  device.knows_utilisation =
      call.device_get_utilization_rates != nullptr &&
      call.device_get_utilization_rates(handle, &utilization) == NVML_SUCCESS;
  device.near_cpus = near_cpus(both.whole);
  unsigned minor = 0;
  if (call.device_get_minor_number != nullptr &&
      call.device_get_minor_number(both.whole, &minor) == NVML_SUCCESS) {
    device.minor = minor;
  }
  handles.push_back(both);
  devices.push_back(std::move(device));
}

std::string Nvml::State::near_cpus(nvmlDevice_t whole) const {
  std::array<unsigned long, kMostNearCpus / (8 * sizeof(unsigned long))> set{};
  if (call.device_get_cpu_affinity != nullptr &&
      call.device_get_cpu_affinity(whole, static_cast<unsigned>(set.size()), set.data()) ==
          NVML_SUCCESS) {
    return cpu_list_of(set);
  }
  nvmlPciInfo_t bus = {};
  if (call.device_get_pci_info == nullptr ||
      call.device_get_pci_info(whole, &bus) != NVML_SUCCESS) {
    return "";
  }
  bus.busId[sizeof(bus.busId) - 1] = '\0';
  return near_cpus_by_sysfs(sysfs, bus.busId);
}

nvmlReturn_t Nvml::State::memory_of(nvmlDevice_t handle, const DeviceInventory& device,
                                    nvmlMemory_t& memory) const {
  const nvmlReturn_t status = call.device_get_memory_info(handle, &memory);
  if (status != NVML_ERROR_NOT_SUPPORTED || !device.integrated) return status;
  memory = {device.memory_total.count, device.memory_total.count, 0};
  if (call.device_get_compute_running_processes == nullptr) return NVML_SUCCESS;
  std::vector<nvmlProcessInfo_t> processes(kMostProcesses);
  unsigned count = static_cast<unsigned>(processes.size());
  const nvmlReturn_t listed =
      call.device_get_compute_running_processes(handle, &count, processes.data());
  if (health_of(listed) == DeviceHealth::kLost) return listed;
  if (listed != NVML_SUCCESS) return NVML_SUCCESS;  // how much is used is not known
  processes.resize(std::min<size_t>(count, processes.size()));
  for (const nvmlProcessInfo_t& process : processes) {
    if (process.usedGpuMemory <= memory.free) memory.used += process.usedGpuMemory;
  }
  memory.used = std::min(memory.used, memory.total);
  memory.free = memory.total - memory.used;
  return NVML_SUCCESS;
}

bool Nvml::State::is_another_instance(size_t place) const {
  if (devices[place].profile.empty()) return false;
  char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = {};
  return call.device_get_uuid(handles[place].own, uuid, sizeof(uuid)) == NVML_SUCCESS &&
         devices[place].uuid != uuid;
}

DeviceReading Nvml::State::read(size_t place) const {
  DeviceReading reading;
  reading.index = devices[place].index;
  reading.memory_total = devices[place].memory_total;
  nvmlMemory_t memory = {};
  const nvmlReturn_t status = memory_of(handles[place].own, devices[place], memory);
  if (status != NVML_SUCCESS) {
    reading.health = health_of(status);
    // The instance was destroyed: what its handle says is not known any more.
    const bool is_gone = status == NVML_ERROR_NOT_FOUND || status == NVML_ERROR_INVALID_ARGUMENT;
    if (is_gone && !devices[place].profile.empty()) reading.health = DeviceHealth::kLost;
    return reading;
  }
  if (is_another_instance(place)) {
    reading.health = DeviceHealth::kLost;
    return reading;
  }
  reading.memory_used = Bytes(memory.used);
  reading.memory_total = Bytes(memory.total);
  // Some devices (MIG instances among them) have no utilisation to tell: that is no bad health.
  nvmlUtilization_t utilization = {};
  reading.knows_utilisation =
      call.device_get_utilization_rates != nullptr &&
      call.device_get_utilization_rates(handles[place].own, &utilization) == NVML_SUCCESS;
  if (reading.knows_utilisation) {
    reading.busy_percent = static_cast<uint8_t>(std::min(utilization.gpu, 100u));
    reading.memory_busy_percent = static_cast<uint8_t>(std::min(utilization.memory, 100u));
  }
  read_memory_errors(handles[place].whole, reading);
  return reading;
}

// Devices without ECC have nothing to tell of it. Since Ampere they replace rows of their memory,
// those before retire pages.
void Nvml::State::read_memory_errors(nvmlDevice_t whole, DeviceReading& reading) const {
  unsigned long long errors = 0;
  if (call.device_get_total_ecc_errors != nullptr &&
      call.device_get_total_ecc_errors(whole, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC,
                                       &errors) == NVML_SUCCESS) {
    reading.uncorrected_errors = errors;
  }
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  nvmlEnableState_t pages = NVML_FEATURE_DISABLED;
  if (call.device_get_remapped_rows != nullptr &&
      call.device_get_remapped_rows(whole, &corrected, &uncorrected, &pending, &failed) ==
          NVML_SUCCESS) {
    reading.repair = failed > 0    ? MemoryRepair::kFailed
                     : pending > 0 ? MemoryRepair::kPending
                                   : MemoryRepair::kNone;
  } else if (call.device_get_retired_pages_pending_status != nullptr &&
             call.device_get_retired_pages_pending_status(whole, &pages) == NVML_SUCCESS) {
    reading.repair = pages == NVML_FEATURE_ENABLED ? MemoryRepair::kPending : MemoryRepair::kNone;
  }
}

// Without events (an old driver) errors of memory and losses show in the readings all the same.
void Nvml::State::make_event_set() {
  if (events != nullptr) call.event_set_free(events);
  events = nullptr;
  for (Handle& handle : handles) handle.watch = Watch::kNotYet;
  if (call.event_set_create == nullptr || call.device_register_events == nullptr ||
      call.event_set_wait == nullptr || call.event_set_free == nullptr) {
    return;
  }
  const nvmlReturn_t made = call.event_set_create(&events);
  if (made == NVML_SUCCESS) return;
  events = nullptr;
  complain("no Xids are told: make a set of events: " + status_text(made));
}

// A device that does not answer could spoil the set for all others: it is watched once it does.
void Nvml::State::watch_those_that_answer() {
  for (size_t place = 0; events != nullptr && place < handles.size(); ++place) {
    Handle& handle = handles[place];
    nvmlMemory_t memory = {};
    if (handle.watch != Watch::kNotYet ||
        memory_of(handle.own, devices[place], memory) != NVML_SUCCESS) {
      continue;
    }
    const nvmlReturn_t registered =
        call.device_register_events(handle.whole, nvmlEventTypeXidCriticalError, events);
    const bool is_down = health_of(registered) == DeviceHealth::kLost;
    const Watch watch = registered == NVML_SUCCESS ? Watch::kYes
                        : is_down                  ? Watch::kNotYet
                                                   : Watch::kRefused;
    for (Handle& other : handles) {
      if (other.whole == handle.whole) other.watch = watch;
    }
    if (watch != Watch::kRefused) continue;
    complain("no Xids of " + devices[place].uuid + " are told: " + status_text(registered));
  }
}

void Nvml::State::complain(const std::string& what) {
  if (complaints.size() < kMostComplaints) complaints.push_back(what);
}

Nvml::Nvml(std::unique_ptr<State> state) : state_(std::move(state)) {}
Nvml::~Nvml() = default;

const std::vector<DeviceInventory>& Nvml::devices() const { return state_->devices; }

std::vector<DeviceReading> Nvml::read() const {
  std::vector<DeviceReading> readings;
  for (size_t place = 0; place < state_->devices.size(); ++place) {
    readings.push_back(state_->read(place));
  }
  return readings;
}

std::vector<DeviceFault> Nvml::take_faults(size_t most) {
  std::vector<DeviceFault> faults;
  nvmlEventData_t event = {};
  nvmlReturn_t waited = NVML_SUCCESS;
  while (state_->events != nullptr && faults.size() < most) {
    waited = state_->call.event_set_wait(state_->events, &event, 0);
    if (waited != NVML_SUCCESS) break;
    if (event.eventType != nvmlEventTypeXidCriticalError) continue;
    const Xid xid = xid_of(event.eventData);
    for (size_t place = 0; place < state_->handles.size(); ++place) {
      const State::Handle& handle = state_->handles[place];
      const bool elsewhere = event.gpuInstanceId != kNoInstance &&
                             handle.gpu_instance != kNoInstance &&
                             event.gpuInstanceId != handle.gpu_instance;
      if (handle.whole != event.device || elsewhere) continue;
      faults.push_back(
          {state_->devices[place].index, xid.number, xid.gravity, std::string(xid.what)});
    }
  }
  const bool is_broken = waited != NVML_SUCCESS && waited != NVML_ERROR_TIMEOUT;
  if (is_broken && !std::exchange(state_->events_broke, true)) {
    state_->complain("Xids may be missed: wait for events: " + status_text(waited));
  } else if (!is_broken) {
    state_->events_broke = false;
  }
  if (is_broken) state_->make_event_set();
  return faults;
}

void Nvml::watch_those_that_answer() { state_->watch_those_that_answer(); }

std::vector<std::string> Nvml::take_complaints() { return std::exchange(state_->complaints, {}); }

}  // namespace lambent::monitor
