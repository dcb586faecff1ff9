#include "node/worker/device_care.h"

#include <utility>

namespace lambent::worker {
namespace {

// Of different ones; there are far fewer.
constexpr size_t kMostXids = 256;
// By the list of NVIDIA.
constexpr uint64_t kXidFellOffTheBus = 79;

// So that the next reading that tells it has something to compare with, and a busy device does not
// look idle.
void keep_what_was_not_told(protocol::DeviceReading& reading,
                            const protocol::DeviceReading& before) {
  if (!reading.uncorrected_errors) reading.uncorrected_errors = before.uncorrected_errors;
  if (!reading.repair) reading.repair = before.repair;
  const bool is_well = reading.health == protocol::DeviceHealth::kHealthy;
  if (is_well && reading.knows_utilisation) return;
  reading.busy_percent = before.busy_percent;
  reading.memory_busy_percent = before.memory_busy_percent;
}

// What the operator reads, and the catalog keeps.
std::string sickness_by(uint64_t xid) { return "Xid " + std::to_string(xid) + ": "; }

}  // namespace

using protocol::DeviceHealth;
using protocol::FaultGravity;
using protocol::MemoryRepair;

std::string_view name_of(DeviceState state) {
  switch (state) {
    case DeviceState::kHealthy:
      return "healthy";
    case DeviceState::kSilent:
      return "silent";
    case DeviceState::kDrained:
      return "drained";
    case DeviceState::kLost:
      return "lost";
  }
  return "";
}

void DeviceCare::read(DeviceId device, const protocol::DeviceReading& reading, Duration now) {
  Record& record = records_[device];
  const protocol::DeviceReading before = std::exchange(record.status.reading, reading);
  keep_what_was_not_told(record.status.reading, before);
  if (!record.average) record.average.emplace(utilisation_average_);
  record.utilisation =
      record.average->add(record.status.reading.busy_percent / 100.0, Instant(now));
  if (reading.health == DeviceHealth::kHealthy) {
    const bool fewer_errors = reading.uncorrected_errors && before.uncorrected_errors &&
                              *reading.uncorrected_errors < *before.uncorrected_errors;
    // A GPU that fell off the bus answers only once it was reset, which no reading may have seen.
    const bool was_gone = record.status.state == DeviceState::kLost || record.fell_off;
    if (fewer_errors || was_gone) forgive(record, true);
    judge_memory(record, reading);
  }
  settle(record, now);
}

void DeviceCare::judge_memory(Record& record, const protocol::DeviceReading& reading) {
  record.status.notice = record.status.reading.repair == MemoryRepair::kPending
                             ? "memory that failed is replaced when the GPU is reset"
                             : "";
  if (!record.sickness.empty()) return;
  if (reading.uncorrected_errors.value_or(0) > record.errors_accepted) {
    record.sickness = std::to_string(*reading.uncorrected_errors) +
                      " errors of memory that ECC could not correct";
  } else if (reading.repair == MemoryRepair::kFailed && !record.repair_accepted) {
    record.sickness = "memory that failed could not be replaced";
  }
}

void DeviceCare::fault(DeviceId device, const protocol::DeviceFault& fault, Duration now) {
  Record& record = records_[device];
  auto& xids = record.status.xids;
  if (xids.size() < kMostXids || xids.contains(fault.xid)) ++xids[fault.xid];
  if (fault.gravity != FaultGravity::kDevice) return;
  // The first is mostly the cause, and those after it what it led to; but after a restart of the
  // worker only the reason tells that it fell off the bus, by which it is well once it answers.
  const bool falls_off = fault.xid == kXidFellOffTheBus && !record.fell_off;
  record.fell_off |= falls_off;
  if (record.sickness.empty() || falls_off) {
    record.sickness = sickness_by(fault.xid) + fault.what;
  }
  settle(record, now);
}

void DeviceCare::drain(DeviceId device, const std::string& reason, Duration now) {
  Record& record = records_[device];
  record.drained_by_operator = true;
  record.operators_reason = reason;
  settle(record, now);
}

Result<void> DeviceCare::undrain(DeviceId device, Duration now) {
  Record& record = records_[device];
  if (record.status.state == DeviceState::kLost) {
    return Error{ErrorCode::kFailedPrecondition,
                 "the GPU is lost; it serves again once it was reset and answers"};
  }
  record.drained_by_operator = false;
  forgive(record, false);
  settle(record, now);
  return {};
}

catalog::DeviceRecord DeviceCare::record(DeviceId device) const {
  catalog::DeviceRecord kept;
  const auto found = records_.find(device);
  if (found == records_.end()) return kept;
  const Record& record = found->second;
  kept.drained_by_operator = record.drained_by_operator;
  kept.operators_reason = record.operators_reason;
  kept.sickness = record.sickness;
  kept.errors = record.status.reading.uncorrected_errors.value_or(0);
  kept.errors_accepted = record.errors_accepted;
  kept.repair_accepted = record.repair_accepted;
  return kept;
}

void DeviceCare::restore(DeviceId device, const catalog::DeviceRecord& kept, Duration now) {
  Record& record = records_[device];
  record.drained_by_operator = kept.drained_by_operator;
  record.operators_reason = kept.operators_reason;
  record.sickness = kept.sickness;
  record.fell_off = kept.sickness.starts_with(sickness_by(kXidFellOffTheBus));
  record.status.reading.uncorrected_errors = kept.errors;
  record.errors_accepted = kept.errors_accepted;
  record.repair_accepted = kept.repair_accepted;
  settle(record, now);
}

// What the operator drained stays so over a reset, which may be why.
void DeviceCare::forgive(Record& record, bool was_reset) {
  const protocol::DeviceReading& reading = record.status.reading;
  record.sickness.clear();
  record.fell_off = false;
  if (was_reset) {
    record.errors_accepted = 0;
    record.repair_accepted = false;
    return;
  }
  // Where NVML told nothing yet, what was accepted before stays so.
  if (reading.uncorrected_errors) record.errors_accepted = *reading.uncorrected_errors;
  if (reading.repair) record.repair_accepted = *reading.repair == MemoryRepair::kFailed;
}

void DeviceCare::settle(Record& record, Duration now) {
  DeviceStatus& status = record.status;
  const DeviceState before = status.state;
  status.reason = record.sickness;
  if (status.reading.health == DeviceHealth::kLost) {
    status.state = DeviceState::kLost;
    if (status.reason.empty()) status.reason = "it fell off the bus or needs a reset";
  } else if (!record.sickness.empty()) {
    status.state = DeviceState::kDrained;
  } else if (record.drained_by_operator) {
    status.state = DeviceState::kDrained;
    status.reason = "by the operator";
    if (!record.operators_reason.empty()) status.reason += ": " + record.operators_reason;
  } else if (status.reading.health == DeviceHealth::kUnreadable) {
    status.state = DeviceState::kSilent;
    status.reason = "it does not answer";
  } else {
    status.state = DeviceState::kHealthy;
  }
  if (status.state != before || status.since == Duration(0)) status.since = now;
}

const DeviceStatus& DeviceCare::status(DeviceId device) const {
  static const DeviceStatus kUnheard;
  const auto found = records_.find(device);
  return found == records_.end() ? kUnheard : found->second.status;
}

dispatch::DeviceReading DeviceCare::event(DeviceId device) const {
  const DeviceStatus& now = status(device);
  dispatch::DeviceReading event;
  event.device = device;
  const auto found = records_.find(device);
  event.utilisation = found == records_.end() ? 0 : found->second.utilisation;
  event.memory_used = now.reading.memory_used;
  event.healthy = now.state == DeviceState::kHealthy;
  event.lost = now.state == DeviceState::kLost || now.state == DeviceState::kDrained;
  return event;
}

}  // namespace lambent::worker
