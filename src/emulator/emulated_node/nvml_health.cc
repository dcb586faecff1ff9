// NVML's functions for events, errors, sensors and links. What the emulator has no model of is a
// constant of the device's specification, or not supported. Every call is for any thread.
#include <time.h>

#include <algorithm>
#include <set>

#include "core/base/mutex.h"
#include "emulator/emulated_node/nvml_handles.h"

using namespace lambent::emulated_node;

namespace {

constexpr unsigned long long kKnownEvents =
    nvmlEventTypeDoubleBitEccError | nvmlEventTypeXidCriticalError | nvmlEventTypeSingleBitEccError;
constexpr int kLongestWait_ms = 200;  // between looks for a shutdown
constexpr unsigned kIdleTemperature_c = 35;

int64_t milliseconds_now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1'000'000;
}

struct EventSet {
  std::shared_ptr<Node> node;
  uint64_t seen = 0;                           // number of the last event that was delivered
  unsigned long long types[kMaxDevices] = {};  // asked for, of each device
};

lambent::Mutex g_sets_mutex;  // guards the list and the sets in it; taken before the node's lock
std::set<EventSet*>& sets() REQUIRES(g_sets_mutex) {
  static auto* live = new std::set<EventSet*>;
  return *live;
}

EventSet* find_set(nvmlEventSet_t handle) REQUIRES(g_sets_mutex) {
  auto it = sets().find(reinterpret_cast<EventSet*>(handle));
  return it == sets().end() ? nullptr : *it;
}

// The next event that the set wants; marks what it skips as seen.
bool next_event(EventSet& set, nvmlEventData_t* data) REQUIRES(g_sets_mutex) {
  Node::Guard guard(*set.node);
  while (const NodeEvent* event = event_after(guard->events, set.seen)) {
    set.seen = event->number;
    if (!(set.types[event->device % kMaxDevices] & event->type)) continue;
    *data = {handle_of(event->device), event->type, event->data, 0xFFFFFFFFu, 0xFFFFFFFFu};
    return true;
  }
  return false;
}

// Reads something of a device's health under the lock.
template <class Read>
nvmlReturn_t read_health(nvmlDevice_t handle, Read read) {
  std::shared_ptr<Node> node;
  int device;
  if (nvmlReturn_t result = find_device(handle, &node, &device)) return result;
  Node::Guard guard(*node);
  return read(*node, guard, device);
}

}  // namespace

#pragma GCC visibility push(default)

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* handle) {
  auto node = nvml_node();
  if (!node) return NVML_ERROR_UNINITIALIZED;
  if (!handle) return NVML_ERROR_INVALID_ARGUMENT;
  auto* set = new EventSet;
  set->node = node;
  set->seen = Node::Guard(*node)->events.count;
  const lambent::MutexLock lock(g_sets_mutex);
  sets().insert(set);
  *handle = reinterpret_cast<nvmlEventSet_t>(set);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t handle, unsigned long long* types) {
  if (!types) return NVML_ERROR_INVALID_ARGUMENT;
  return read_health(handle, [&](Node&, Node::Guard&, int) {
    *types = kKnownEvents;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t handle, unsigned long long types,
                                      nvmlEventSet_t set_handle) {
  // Not under the node's lock, which is taken after that of the sets.
  std::shared_ptr<Node> node;
  int device;
  if (nvmlReturn_t result = find_device(handle, &node, &device)) return result;
  const lambent::MutexLock lock(g_sets_mutex);
  EventSet* set = find_set(set_handle);
  if (!set) return NVML_ERROR_INVALID_ARGUMENT;
  if (types & ~kKnownEvents) return NVML_ERROR_NOT_SUPPORTED;
  set->types[device] |= types;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t handle, nvmlEventData_t* data,
                                 unsigned int timeout_ms) {
  if (!nvml_node()) return NVML_ERROR_UNINITIALIZED;
  if (!data) return NVML_ERROR_INVALID_ARGUMENT;
  int64_t end_ms = milliseconds_now() + timeout_ms;
  for (;;) {
    std::shared_ptr<Node> node;
    uint32_t count;
    {
      const lambent::MutexLock lock(g_sets_mutex);
      EventSet* set = find_set(handle);
      if (!set) return NVML_ERROR_INVALID_ARGUMENT;
      node = set->node;
      count = Node::Guard(*node)->events.count;
      if (next_event(*set, data)) return NVML_SUCCESS;
    }
    int64_t left_ms = end_ms - milliseconds_now();
    if (left_ms <= 0) return NVML_ERROR_TIMEOUT;
    node->wait_for_event(count, static_cast<int>(std::min<int64_t>(left_ms, kLongestWait_ms)));
  }
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t handle) {
  const lambent::MutexLock lock(g_sets_mutex);
  EventSet* set = find_set(handle);
  if (!set) return NVML_ERROR_INVALID_ARGUMENT;
  sets().erase(set);
  delete set;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t handle, nvmlEnableState_t* current,
                                  nvmlEnableState_t* pending) {
  if (!current || !pending) return NVML_ERROR_INVALID_ARGUMENT;
  return read_health(handle, [&](Node&, Node::Guard&, int) {
    *current = *pending = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
  });
}

// Corrected errors are not modelled: there are none.
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t handle, nvmlMemoryErrorType_t type,
                                         nvmlEccCounterType_t counter, unsigned long long* count) {
  bool known = type <= NVML_MEMORY_ERROR_TYPE_UNCORRECTED && counter <= NVML_AGGREGATE_ECC;
  if (!count || !known) return NVML_ERROR_INVALID_ARGUMENT;
  return read_health(handle, [&](Node&, Node::Guard& guard, int device) {
    const DeviceHealth& health = guard->devices[device].health;
    *count = type == NVML_MEMORY_ERROR_TYPE_CORRECTED ? 0
             : counter == NVML_VOLATILE_ECC           ? health.uncorrected_volatile
                                                      : health.uncorrected;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t handle, nvmlPageRetirementCause_t cause,
                                       unsigned int* count, unsigned long long* addresses) {
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  return read_health(handle, [&](Node&, Node::Guard& guard, int device) {
    uint32_t pages = cause == NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR
                         ? guard->devices[device].health.retired_pages
                         : 0;
    unsigned room = addresses ? *count : 0;
    *count = pages;
    if (addresses && room < pages) return NVML_ERROR_INSUFFICIENT_SIZE;
    for (uint32_t i = 0; addresses && i < pages; i++) addresses[i] = uint64_t{i} << 16;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t handle, unsigned int words, unsigned long* set) {
  if (!set || words == 0) return NVML_ERROR_INVALID_ARGUMENT;
  return read_health(handle, [&](Node& node, Node::Guard&, int device) {
    const uint64_t processors = node.spec().topology.processors[device];
    if (!processors) return NVML_ERROR_NOT_SUPPORTED;
    std::fill(set, set + words, 0);
    set[0] = processors;
    return NVML_SUCCESS;
  });
}

// A page that was retired since the last reset is still in use.
nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t handle,
                                                    nvmlEnableState_t* pending) {
  if (!pending) return NVML_ERROR_INVALID_ARGUMENT;
  return read_health(handle, [&](Node&, Node::Guard& guard, int device) {
    const bool waits = guard->devices[device].health.uncorrected_volatile > 0;
    *pending = waits ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
  });
}

// Pages are retired here, on every device; none remaps rows.
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t handle, unsigned int*, unsigned int*,
                                       unsigned int*, unsigned int*) {
  return read_health(handle, [](Node&, Node::Guard&, int) { return NVML_ERROR_NOT_SUPPORTED; });
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t handle, nvmlTemperatureSensors_t sensor,
                                      unsigned int* degrees) {
  if (!degrees || sensor != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
  return read_health(handle, [&](Node&, Node::Guard&, int) {
    *degrees = kIdleTemperature_c;  // heat is not modelled
    return NVML_SUCCESS;
  });
}

namespace {
nvmlReturn_t clock_of(nvmlDevice_t handle, nvmlClockType_t type, unsigned* mhz) {
  if (!mhz || type > NVML_CLOCK_MEM) return NVML_ERROR_INVALID_ARGUMENT;
  return read_health(handle, [&](Node& node, Node::Guard&, int) {
    const DeviceSpec& spec = node.device();
    int khz = type == NVML_CLOCK_MEM ? spec.memory_clock_khz : spec.clock_khz;
    *mhz = static_cast<unsigned>(khz / 1000);
    return NVML_SUCCESS;
  });
}
}  // namespace

// The clocks never change.
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t handle, nvmlClockType_t type, unsigned int* mhz) {
  return clock_of(handle, type, mhz);
}
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t handle, nvmlClockType_t type,
                                       unsigned int* mhz) {
  return clock_of(handle, type, mhz);
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t handle, nvmlComputeMode_t* mode) {
  if (!mode) return NVML_ERROR_INVALID_ARGUMENT;
  return read_health(handle, [&](Node&, Node::Guard&, int) {
    *mode = NVML_COMPUTEMODE_DEFAULT;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t handle, nvmlEnableState_t* mode) {
  if (!mode) return NVML_ERROR_INVALID_ARGUMENT;
  return read_health(handle, [&](Node&, Node::Guard&, int) {
    *mode = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t handle, unsigned int*) {
  return read_health(handle, [](Node&, Node::Guard&, int) { return NVML_ERROR_NOT_SUPPORTED; });
}

#pragma GCC visibility pop
