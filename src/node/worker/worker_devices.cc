// The part of Worker that looks after devices: what is read and heard of them, what the operator
// says, and what is shown.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "node/worker/slice_choice.h"
#include "node/worker/worker.h"

namespace lambent::worker {
namespace {

using nlohmann::json;
using protocol::FaultGravity;

json xids_json(const DeviceStatus& status) {
  json xids = json::object();
  for (const auto& [xid, count] : status.xids) xids[std::to_string(xid)] = count;
  return xids;
}

json text_or_null(const std::string& text) { return text.empty() ? json() : json(text); }

}  // namespace

void Worker::device_reading(const protocol::DeviceReading& reading) {
  const DeviceId device(reading.index + 1);
  const DeviceState before = care_.status(device).state;
  care_.read(device, reading, loop_.clock().wall_now());
  tell_of_device(device, before);
}

void Worker::devices_read(const std::vector<protocol::DeviceReading>& readings) {
  for (const protocol::DeviceReading& reading : readings) device_reading(reading);
  for (const protocol::DeviceInventory& device : options_.devices) {
    const bool is_there = std::ranges::any_of(
        readings, [&](const auto& reading) { return reading.index == device.index; });
    if (is_there) continue;
    device_reading({.index = device.index,
                    .health = protocol::DeviceHealth::kLost,
                    .memory_total = device.memory_total});
  }
  evict_unused_executors();
}

// Who would fit a device, and none beside what executors take, waits for these to end: on one
// device that would have the room then, those that nothing uses do so. They come back with the next
// request for them.
void Worker::evict_unused_executors() {
  Bytes largest;
  Bytes largest_then;
  DeviceId device_then;
  for (const scheduling::Device& device : dispatcher_->fleet().devices()) {
    if (!device.healthy) continue;
    largest = std::max(largest, device.capacity());
    const Bytes then = device.options.memory - executors_.taken_by_used(device.options.id);
    if (then <= largest_then) continue;
    largest_then = then;
    device_then = device.options.id;
  }
  const auto waits = [&](const scheduling::Flow& flow) {
    return flow.pending > 0 && flow.device_memory > largest && flow.device_memory <= largest_then;
  };
  if (std::ranges::any_of(dispatcher_->flows(), waits)) executors_.evict_unused(device_then);
}

void Worker::devices_silent() {
  for (const protocol::DeviceInventory& device : options_.devices) {
    // One that is known to be lost is not found again by silence.
    if (care_.status(device_id_of(device)).state == DeviceState::kLost) continue;
    device_reading({.index = device.index,
                    .health = protocol::DeviceHealth::kUnreadable,
                    .memory_total = device.memory_total});
  }
}

void Worker::devices_faulted(const std::vector<protocol::DeviceFault>& faults) {
  for (const protocol::DeviceFault& fault : faults) {
    const DeviceId device(fault.index + 1);
    const DeviceState before = care_.status(device).state;
    care_.fault(device, fault, loop_.clock().wall_now());
    const LogField gpu{"gpu", place_name(device)};
    const LogField xid{"xid", int64_t{fault.xid}};
    if (fault.gravity == FaultGravity::kApplication) {
      log_.info("gpu_application_error", {gpu, xid, {"what", fault.what}});
    } else {
      log_.warning("gpu_error", {gpu, xid, {"what", fault.what}});
    }
    if (care_.status(device).state != before) tell_of_device(device, before);
    keep_record(device);
  }
}

void Worker::tell_of_device(DeviceId device, DeviceState before) {
  keep_record(device);
  const dispatch::DeviceReading event = care_.event(device);
  pipelines_.device_reading(device, event.lost);
  handle(event);
  const DeviceStatus& now = care_.status(device);
  if (now.state == before) return;
  const LogField gpu{"gpu", place_name(device)};
  if (now.state == DeviceState::kHealthy) {
    log_.info("gpu_well", {gpu});
    keep_all_executors();
  } else {
    log_.warning("gpu_sick",
                 {gpu, {"state", std::string(name_of(now.state))}, {"reason", now.reason}});
  }
  // An executor's context there would keep the device from being reset.
  if (event.lost) executors_.leave(device);
}

void Worker::keep_record(DeviceId device) {
  const auto record = record_of(device);
  if (!record) return;
  // Of one that nothing is kept of, nothing is held against it.
  const auto kept = kept_devices_.try_emplace(record->uuid, catalog::DeviceRecord{record->uuid});
  if (kept.first->second != *record) save_record(device, [](Result<void>) {});
}

std::optional<catalog::DeviceRecord> Worker::record_of(DeviceId device) const {
  const auto inventory = std::ranges::find(options_.devices, device, device_id_of);
  if (inventory == options_.devices.end() || inventory->uuid.empty()) return std::nullopt;
  catalog::DeviceRecord record = care_.record(device);
  record.uuid = inventory->uuid;
  return record;
}

void Worker::save_record(DeviceId device, Callback<void> done) {
  auto record = record_of(device);
  if (!record) return done({});  // without a uuid it could not be told from another
  kept_devices_[record->uuid] = *record;
  catalog_.save_device(std::move(*record), [this, device, done](Result<void> saved) {
    if (!saved.ok()) {
      log_.warning("device_not_kept",
                   {{"gpu", place_name(device)}, {"error", to_string(saved.error())}});
    }
    done(std::move(saved));
  });
}

void Worker::recover_devices(const std::vector<catalog::DeviceRecord>& records) {
  for (const protocol::DeviceInventory& device : options_.devices) {
    const auto record = std::ranges::find(records, device.uuid, &catalog::DeviceRecord::uuid);
    if (device.uuid.empty() || record == records.end()) continue;
    kept_devices_[device.uuid] = *record;
    const DeviceId id = device_id_of(device);
    const DeviceState before = care_.status(id).state;
    care_.restore(id, *record, loop_.clock().wall_now());
    if (care_.status(id).state != before) tell_of_device(id, before);
  }
}

Result<std::vector<DeviceId>> Worker::devices_called(const std::string& name) const {
  std::vector<DeviceId> found;
  std::string known;
  for (const protocol::DeviceInventory& device : options_.devices) {
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

void Worker::drain_devices(const std::string& name, const std::string& reason,
                           Callback<void> done) {
  const auto devices = devices_called(name);
  if (!devices.ok()) return done(devices.error());
  for (const DeviceId device : *devices) {
    const DeviceState before = care_.status(device).state;
    care_.drain(device, reason, loop_.clock().wall_now());
    tell_of_device(device, before);
  }
  // The catalog writes in order: once this is kept, so are the others.
  save_record(devices->back(), std::move(done));
}

void Worker::undrain_devices(const std::string& name, Callback<void> done) {
  const auto devices = devices_called(name);
  if (!devices.ok()) return done(devices.error());
  Result<void> result;
  for (const DeviceId device : *devices) {
    const DeviceState before = care_.status(device).state;
    const auto undrained = care_.undrain(device, loop_.clock().wall_now());
    if (!undrained.ok()) result = undrained.error();
    tell_of_device(device, before);
  }
  if (!result.ok()) return done(result);
  save_record(devices->back(), std::move(done));
}

std::string Worker::devices_json() const {
  const scheduling::Fleet& fleet = dispatcher_->fleet();
  const Duration now = loop_.clock().wall_now();
  json devices = json::array();
  for (const protocol::DeviceInventory& device : options_.devices) {
    const DeviceId id = device_id_of(device);
    const DeviceStatus& status = care_.status(id);
    const auto index = fleet.device_index(id);
    const bool is_heard_of = status.since != Duration(0);
    json row = {
        {"gpu", place_name(id)},
        {"uuid", device.uuid},
        {"name", device.name},
        {"state", name_of(status.state)},
        {"reason", text_or_null(status.reason)},
        {"since_seconds", is_heard_of ? json(to_seconds(status.since)) : json()},
        {"for_seconds", is_heard_of ? json(to_seconds(now - status.since)) : json()},
        {"notice", text_or_null(status.notice)},
        {"xids", xids_json(status)},
        {"uncorrected_errors",
         status.reading.uncorrected_errors ? json(*status.reading.uncorrected_errors) : json()},
        {"memory_total_bytes", device.memory_total.count},
        {"memory_used_bytes", status.reading.memory_used.count},
        {"serves", index ? "functions" : "pipelines"}};
    if (status.reading.knows_utilisation) {
      row["utilization"] = status.reading.busy_percent / 100.0;
    } else {
      row["utilization"] = nullptr;
    }
    if (index) {
      const scheduling::Device& state = fleet.devices()[*index];
      row["tokens"] = state.tokens();
      row["tokens_held"] = state.tokens_held;
      row["tokens_by"] = state.concurrency ? "utilization" : "setting";
      row["sandboxes"] = state.sandboxes;
      row["memory_taken_bytes"] = state.taken.count;
    }
    devices.push_back(std::move(row));
  }
  return json{{"devices", devices}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace lambent::worker
