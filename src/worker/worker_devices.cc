// The part of Worker that looks after devices: what is read and heard of them, what the operator
// says, and what is shown.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "worker/slice_choice.h"
#include "worker/worker.h"

namespace lambent::worker {
namespace {

using nlohmann::json;
using protocol::FaultGravity;

json xids_json(const DeviceStanding& standing) {
  json xids = json::object();
  for (const auto& [xid, count] : standing.xids) xids[std::to_string(xid)] = count;
  return xids;
}

json text_or_null(const std::string& text) { return text.empty() ? json() : json(text); }

}  // namespace

void Worker::device_reading(const protocol::DeviceReading& reading) {
  const DeviceId device(reading.index + 1);
  const DeviceState before = care_.standing(device).state;
  care_.read(device, reading, loop_.clock().wall_now());
  tell_of_device(device, before);
}

void Worker::devices_faulted(const std::vector<protocol::DeviceFault>& faults) {
  for (const protocol::DeviceFault& fault : faults) {
    const DeviceId device(fault.index + 1);
    const DeviceState before = care_.standing(device).state;
    care_.fault(device, fault, loop_.clock().wall_now());
    const LogField gpu{"gpu", place_name(device)};
    const LogField xid{"xid", int64_t{fault.xid}};
    if (fault.gravity == FaultGravity::kApplication) {
      log_.info("gpu_application_error", {gpu, xid, {"what", fault.what}});
    } else {
      log_.warning("gpu_error", {gpu, xid, {"what", fault.what}});
    }
    if (care_.standing(device).state != before) tell_of_device(device, before);
  }
}

void Worker::tell_of_device(DeviceId device, DeviceState before) {
  const dispatch::DeviceReading event = care_.event(device);
  pipelines_.device_reading(device, event.lost);
  handle(event);
  const DeviceStanding& now = care_.standing(device);
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

Result<void> Worker::drain_devices(const std::string& name, const std::string& reason) {
  ASSIGN_OR_RETURN(const std::vector<DeviceId> devices, devices_called(name));
  for (const DeviceId device : devices) {
    const DeviceState before = care_.standing(device).state;
    care_.drain(device, reason, loop_.clock().wall_now());
    tell_of_device(device, before);
  }
  return {};
}

Result<void> Worker::undrain_devices(const std::string& name) {
  ASSIGN_OR_RETURN(const std::vector<DeviceId> devices, devices_called(name));
  Result<void> result;
  for (const DeviceId device : devices) {
    const DeviceState before = care_.standing(device).state;
    const auto done = care_.undrain(device, loop_.clock().wall_now());
    if (!done.ok()) result = done.error();
    tell_of_device(device, before);
  }
  return result;
}

std::string Worker::devices_json() const {
  const scheduling::Fleet& fleet = dispatcher_->fleet();
  const Duration now = loop_.clock().wall_now();
  json devices = json::array();
  for (const protocol::DeviceInventory& device : options_.devices) {
    const DeviceId id = device_id_of(device);
    const DeviceStanding& standing = care_.standing(id);
    const auto index = fleet.device_index(id);
    const bool is_heard_of = standing.since != Duration(0);
    json row = {{"gpu", place_name(id)},
                {"uuid", device.uuid},
                {"name", device.name},
                {"state", name_of(standing.state)},
                {"reason", text_or_null(standing.reason)},
                {"since_seconds", is_heard_of ? json(to_seconds(standing.since)) : json()},
                {"for_seconds", is_heard_of ? json(to_seconds(now - standing.since)) : json()},
                {"notice", text_or_null(standing.notice)},
                {"xids", xids_json(standing)},
                {"uncorrected_errors", standing.reading.uncorrected_errors},
                {"memory_total_bytes", device.memory_total.count},
                {"memory_used_bytes", standing.reading.memory_used.count},
                {"serves", index ? "functions" : "pipelines"}};
    if (standing.reading.knows_utilisation) {
      row["utilization"] = standing.reading.busy_percent / 100.0;
    } else {
      row["utilization"] = nullptr;
    }
    if (index) {
      const scheduling::Device& state = fleet.devices()[*index];
      row["tokens"] = state.tokens();
      row["tokens_held"] = state.tokens_held;
      row["tokens_by"] = state.concurrency ? "utilization" : "setting";
      row["sandboxes"] = state.sandboxes;
    }
    devices.push_back(std::move(row));
  }
  return json{{"devices", devices}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace lambent::worker
