#include "node/worker/device_health.h"

#include <algorithm>
#include <utility>

#include "core/domain/slice.h"
#include "node/worker/slice_choice.h"

namespace lambent::worker {

void DeviceHealth::device_reading(const protocol::DeviceReading& reading) {
  const DeviceId device(reading.index + 1);
  const DeviceState before = uses_.care.status(device).state;
  uses_.care.read(device, reading, uses_.loop.clock().wall_now());
  publish(device, before);
}

void DeviceHealth::devices_read(const std::vector<protocol::DeviceReading>& readings) {
  for (const protocol::DeviceReading& reading : readings) device_reading(reading);
  for (const protocol::DeviceInventory& device : uses_.devices) {
    const bool is_there = std::ranges::any_of(
        readings, [&](const auto& reading) { return reading.index == device.index; });
    if (is_there) continue;
    device_reading({.index = device.index,
                    .health = protocol::DeviceHealth::kLost,
                    .memory_total = device.memory_total});
  }
  uses_.keeper.evict_unused();
}

void DeviceHealth::devices_silent() {
  for (const protocol::DeviceInventory& device : uses_.devices) {
    // One that is known to be lost is not found again by silence.
    if (uses_.care.status(device_id_of(device)).state == DeviceState::kLost) continue;
    device_reading({.index = device.index,
                    .health = protocol::DeviceHealth::kUnreadable,
                    .memory_total = device.memory_total});
  }
}

void DeviceHealth::devices_faulted(const std::vector<protocol::DeviceFault>& faults) {
  for (const protocol::DeviceFault& fault : faults) {
    const DeviceId device(fault.index + 1);
    const DeviceState before = uses_.care.status(device).state;
    uses_.care.fault(device, fault, uses_.loop.clock().wall_now());
    const LogField gpu{"gpu", place_name(device)};
    const LogField xid{"xid", int64_t{fault.xid}};
    if (fault.gravity == protocol::FaultGravity::kApplication) {
      uses_.log.info("gpu_application_error", {gpu, xid, {"what", fault.what}});
    } else {
      uses_.log.warning("gpu_error", {gpu, xid, {"what", fault.what}});
    }
    if (uses_.care.status(device).state != before) publish(device, before);
    save_if_changed(device);
  }
}

void DeviceHealth::publish(DeviceId device, DeviceState before) {
  save_if_changed(device);
  const dispatch::DeviceReading event = uses_.care.event(device);
  uses_.pipelines.device_reading(device, event.lost);
  uses_.driver.handle(event);
  const DeviceStatus& now = uses_.care.status(device);
  if (now.state == before) return;
  const LogField gpu{"gpu", place_name(device)};
  if (now.state == DeviceState::kHealthy) {
    uses_.log.info("gpu_well", {gpu});
    uses_.keeper.keep_all();
  } else {
    uses_.log.warning("gpu_sick",
                      {gpu, {"state", std::string(name_of(now.state))}, {"reason", now.reason}});
  }
  // An executor's context there would keep the device from being reset.
  if (event.lost) uses_.executors.leave(device);
}

void DeviceHealth::save_if_changed(DeviceId device) {
  const auto record = record_of(device);
  if (!record) return;
  // One that has no record in the catalog is as a fresh record says.
  const auto saved = saved_.try_emplace(record->uuid, catalog::DeviceRecord{record->uuid});
  if (saved.first->second != *record) save(device, [](Result<void>) {});
}

std::optional<catalog::DeviceRecord> DeviceHealth::record_of(DeviceId device) const {
  const auto inventory = std::ranges::find(uses_.devices, device, device_id_of);
  if (inventory == uses_.devices.end() || inventory->uuid.empty()) return std::nullopt;
  catalog::DeviceRecord record = uses_.care.record(device);
  record.uuid = inventory->uuid;
  return record;
}

void DeviceHealth::save(DeviceId device, Done done) {
  auto record = record_of(device);
  if (!record) return done({});  // without a uuid it could not be told from another
  saved_[record->uuid] = *record;
  uses_.catalog.save_device(std::move(*record), [this, device, done](Result<void> saved) {
    if (!saved.ok()) {
      uses_.log.warning("device_not_kept",
                        {{"gpu", place_name(device)}, {"error", to_string(saved.error())}});
    }
    done(std::move(saved));
  });
}

void DeviceHealth::restore(const std::vector<catalog::DeviceRecord>& records) {
  for (const protocol::DeviceInventory& device : uses_.devices) {
    const auto record = std::ranges::find(records, device.uuid, &catalog::DeviceRecord::uuid);
    if (device.uuid.empty() || record == records.end()) continue;
    saved_[device.uuid] = *record;
    const DeviceId id = device_id_of(device);
    const DeviceState before = uses_.care.status(id).state;
    uses_.care.restore(id, *record, uses_.loop.clock().wall_now());
    if (uses_.care.status(id).state != before) publish(id, before);
  }
}

Result<std::vector<DeviceId>> DeviceHealth::devices_called(const std::string& name) const {
  std::vector<DeviceId> found;
  std::string known;
  for (const protocol::DeviceInventory& device : uses_.devices) {
    const DeviceId id = device_id_of(device);
    // The index of a GPU means all of its instances, where it is cut.
    const bool is_part = is_mig_instance(id) && std::to_string(gpu_of(id)) == name;
    if (is_part || is_called(device, name)) found.push_back(id);
    known += (known.empty() ? "" : ", ") + place_name(id);
  }
  if (!found.empty()) return found;
  return Error{ErrorCode::kNotFound,
               "there is no GPU '" + name + "'" +
                   (known.empty() ? "; this worker has none" : "; there are " + known)};
}

void DeviceHealth::drain(const std::string& name, const std::string& reason, Done done) {
  const auto devices = devices_called(name);
  if (!devices.ok()) return done(devices.error());
  for (const DeviceId device : *devices) {
    const DeviceState before = uses_.care.status(device).state;
    uses_.care.drain(device, reason, uses_.loop.clock().wall_now());
    publish(device, before);
  }
  // The catalog writes in order: once this is saved, so are the others.
  save(devices->back(), std::move(done));
}

void DeviceHealth::undrain(const std::string& name, Done done) {
  const auto devices = devices_called(name);
  if (!devices.ok()) return done(devices.error());
  Result<void> result;
  for (const DeviceId device : *devices) {
    const DeviceState before = uses_.care.status(device).state;
    const auto undrained = uses_.care.undrain(device, uses_.loop.clock().wall_now());
    if (!undrained.ok()) result = undrained.error();
    publish(device, before);
  }
  if (!result.ok()) return done(result);
  save(devices->back(), std::move(done));
}

}  // namespace lambent::worker
