#include "core/protocol/device_message.h"

#include "core/base/message_archive.h"

namespace lambent::protocol {
namespace {

// A message: the version, the kind, then its fields.

void archive_number(StateArchive& archive, std::optional<uint32_t>& number) {
  archive_optional(archive, number, [&archive](uint32_t& known) { archive.field(known); });
}

void archive_device(StateArchive& archive, DeviceInventory& device) {
  archive.field(device.index);
  archive_text(archive, device.uuid, kMostDeviceText);
  archive_text(archive, device.name, kMostDeviceText);
  archive.field(device.memory_total);
  archive_text(archive, device.profile, kMostDeviceText);
  archive.field(device.multiprocessors);
  archive.field(device.knows_utilisation);
  archive.field(device.integrated);
  // A list that is cut would name other processors.
  if (!archive.reading() && device.near_cpus.size() > kMostCpuList) device.near_cpus.clear();
  archive_text(archive, device.near_cpus, kMostCpuList);
  archive_number(archive, device.minor);
  archive_number(archive, device.gpu_instance);
  archive_number(archive, device.compute_instance);
}

void archive_reading(StateArchive& archive, DeviceReading& reading) {
  archive.field(reading.index);
  archive.choice(reading.health, DeviceHealth::kLost);
  archive.field(reading.knows_utilisation);
  archive_at_most<uint8_t>(archive, reading.busy_percent, 100);
  archive_at_most<uint8_t>(archive, reading.memory_busy_percent, 100);
  archive.field(reading.memory_used);
  archive.field(reading.memory_total);
  archive.field(reading.uncorrected_errors);
  archive_optional(archive, reading.repair, [&archive](MemoryRepair& repair) {
    archive.choice(repair, MemoryRepair::kFailed);
  });
}

void archive_fault(StateArchive& archive, DeviceFault& fault) {
  archive.field(fault.index);
  archive.field(fault.xid);
  archive.choice(fault.gravity, FaultGravity::kDevice);
  archive_text(archive, fault.what, kMostDeviceText);
}

void archive_body(StateArchive& archive, DevicesFound& found) {
  archive_list(archive, found.devices, kMostDevices,
               [&archive](DeviceInventory& device) { archive_device(archive, device); });
}

void archive_body(StateArchive& archive, DevicesRead& read) {
  archive.field(read.sequence);
  archive_list(archive, read.readings, kMostDevices,
               [&archive](DeviceReading& reading) { archive_reading(archive, reading); });
}

void archive_body(StateArchive& archive, DevicesFaulted& faulted) {
  archive_list(archive, faulted.faults, kMostDeviceFaults,
               [&archive](DeviceFault& fault) { archive_fault(archive, fault); });
}

void archive_body(StateArchive& archive, DevicesUnavailable& unavailable) {
  archive_text(archive, unavailable.reason, kMostDeviceText);
}

void archive_message(StateArchive& archive, DeviceMessage& message) {
  archive_kind(archive, message, [&archive](auto& body) { archive_body(archive, body); });
}

}  // namespace

std::string encode(DeviceMessage message) {
  std::string bytes;
  StateArchive archive(&bytes);
  uint32_t version = kDeviceProtocolVersion;
  archive.field(version);
  archive_message(archive, message);
  return bytes;
}

Result<DeviceMessage> decode_device_message(std::span<const std::byte> bytes) {
  const auto bad = [](const char* why) {
    return Error{ErrorCode::kInvalidArgument, std::string("device message: ") + why};
  };
  if (bytes.size() > kMostDeviceMessage) return bad("too long");
  StateArchive archive(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  uint32_t version = 0;
  archive.field(version);
  if (version != kDeviceProtocolVersion) return bad("another version");
  DeviceMessage message;
  archive_message(archive, message);
  if (!archive.complete()) return bad("unknown kind, cut short, too long or impossible");
  return message;
}

}  // namespace lambent::protocol
