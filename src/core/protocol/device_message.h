// What lambent-device tells the worker about the node's devices, and its bytes on their socket.
// Values; encoded in lambent-device, decoded on the worker's loop thread, which trusts no byte of
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"

namespace lambent::protocol {

constexpr uint32_t kDeviceProtocolVersion = 8;
constexpr size_t kMostDevices = 128;     // whole ones and MIG instances
constexpr size_t kMostDeviceText = 128;  // bytes of a uuid, a name or a reason
constexpr size_t kMostCpuList = 1024;    // bytes of a list of processors; a longer one is left out
constexpr size_t kMostDeviceFaults = 256;  // in one message
constexpr size_t kMostDeviceMessage = 256 * 1024;

// A whole device, or a MIG instance; a device in MIG mode is told of only by its instances.
struct DeviceInventory {
  uint32_t index = 0;  // its DeviceId less one (core/domain/slice.h)
  std::string uuid;
  std::string name;
  Bytes memory_total;
  std::string profile;            // of an instance: "2g.20gb"; empty: a whole device
  uint32_t multiprocessors = 0;   // of an instance; 0 of a whole device: NVML does not tell
  bool knows_utilisation = true;  // false: NVML does not tell it, as of MIG instances
  bool integrated = false;        // its memory is the host's own
  // The host's processors that are near it, as the kernel lists them: "0-15,64-79"; empty: unknown,
  // or all are.
  std::string near_cpus;
  // N of the whole device's node /dev/nvidiaN; none: NVML did not tell.
  std::optional<uint32_t> minor;
  // Of an instance: NVML's ids of the GPU instance and of the compute instance that it is.
  std::optional<uint32_t> gpu_instance;
  std::optional<uint32_t> compute_instance;

  bool operator==(const DeviceInventory&) const = default;
};

enum class DeviceHealth : uint8_t {
  kHealthy = 0,
  kUnreadable = 1,  // it did not answer this time
  kLost = 2,        // it fell off the bus or needs a reset
};

// Whether memory that failed waits for a reset to be replaced, or could not be.
enum class MemoryRepair : uint8_t { kNone = 0, kPending = 1, kFailed = 2 };

struct DeviceReading {
  uint32_t index = 0;
  DeviceHealth health = DeviceHealth::kHealthy;
  bool knows_utilisation = true;    // false: NVML did not tell it this time, and it is 0 here
  uint8_t busy_percent = 0;         // of the time some kernel ran
  uint8_t memory_busy_percent = 0;  // of the time memory was read or written
  Bytes memory_used;
  Bytes memory_total;
  // Of the whole device: errors of memory that ECC could not correct, since it was reset; none:
  // NVML did not tell.
  std::optional<uint64_t> uncorrected_errors;
  std::optional<MemoryRepair> repair;  // none: NVML did not tell

  bool operator==(const DeviceReading&) const = default;
};

// What an Xid says of the device that it was reported for.
enum class FaultGravity : uint8_t {
  kApplication = 0,  // what ran there did wrong; the device is well
  kNotice = 1,       // to be known, no more
  kDevice = 2,       // the device should get no more work before it was reset
};

struct DeviceFault {
  uint32_t index = 0;
  uint32_t xid = 0;
  FaultGravity gravity = FaultGravity::kNotice;
  std::string what;

  bool operator==(const DeviceFault&) const = default;
};

// The first message: the devices.
struct DevicesFound {
  std::vector<DeviceInventory> devices;
  bool operator==(const DevicesFound&) const = default;
};

// Once a period: how each device is.
struct DevicesRead {
  uint64_t sequence = 0;
  std::vector<DeviceReading> readings;
  bool operator==(const DevicesRead&) const = default;
};

// When Xids were reported; none is told twice.
struct DevicesFaulted {
  std::vector<DeviceFault> faults;
  bool operator==(const DevicesFaulted&) const = default;
};

// The last message of a process that cannot do its work.
struct DevicesUnavailable {
  std::string reason;
  bool operator==(const DevicesUnavailable&) const = default;
};

using DeviceMessage = std::variant<DevicesFound, DevicesRead, DevicesFaulted, DevicesUnavailable>;

// Texts above the limit are cut; more devices or faults than the limit are left out.
std::string encode(DeviceMessage message);
// INVALID_ARGUMENT if the bytes are no whole message of this version.
Result<DeviceMessage> decode_device_message(std::span<const std::byte> bytes);

}  // namespace lambent::protocol
