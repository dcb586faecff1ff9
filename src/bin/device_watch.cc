#include "bin/device_watch.h"

#include <utility>

namespace lambent {
namespace {

constexpr Duration kInventoryWait = seconds(15);

}  // namespace

DeviceWatch::DeviceWatch(loop::EventLoop& loop, LogSink& log, monitor::DeviceMonitorOptions options)
    : loop_(loop), log_(log), monitor_(loop, log, std::move(options), callbacks()) {
  monitor_.start();
}

monitor::DeviceMonitorCallbacks DeviceWatch::callbacks() {
  monitor::DeviceMonitorCallbacks callbacks;
  callbacks.devices_found = [this](const auto& found) {
    // What dispatch was told at the start stays; a device that went shows in the readings.
    if (worker_ == nullptr) devices_ = found;
  };
  callbacks.devices_read = [this](const auto& readings) {
    if (worker_ != nullptr) worker_->devices().devices_read(readings);
  };
  callbacks.devices_faulted = [this](const auto& faults) {
    if (worker_ != nullptr) return worker_->devices().devices_faulted(faults);
    // Those of the start wait for the worker: they are told once.
    early_faults_.insert(early_faults_.end(), faults.begin(), faults.end());
  };
  callbacks.devices_silent = [this](const Error& error) {
    log_.warning("devices_silent", {{"error", to_string(error)}});
    if (worker_ != nullptr) worker_->devices().devices_silent();
  };
  return callbacks;
}

Result<std::vector<protocol::DeviceInventory>> DeviceWatch::find() {
  const Instant deadline = loop_.clock().now() + kInventoryWait;
  while (devices_.empty() && loop_.clock().now() < deadline) loop_.run_once(milliseconds(50));
  if (devices_.empty()) return Error{ErrorCode::kUnavailable, "NVML told of no GPU within 15 s"};
  return devices_;
}

void DeviceWatch::tell(worker::Worker& worker) {
  worker_ = &worker;
  worker.devices().devices_faulted(std::exchange(early_faults_, {}));
}

void DeviceWatch::serve(SandboxId sandbox, const std::vector<DeviceId>& devices, Bytes most_leased,
                        OwnedFd listener) {
  std::vector<uint32_t> gpus;
  for (const DeviceId device : devices) gpus.push_back(gpu_of(device));
  monitor_.serve_sandbox(sandbox, std::move(gpus), most_leased, std::move(listener));
}

void DeviceWatch::forget(SandboxId sandbox) { monitor_.forget_sandbox(sandbox); }

}  // namespace lambent
