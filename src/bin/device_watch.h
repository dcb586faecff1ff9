// DeviceWatch: the worker's devices as lambent-device tells of them, found before there is a worker
// and told to it from then on. Used by lambent-worker's main, on the loop thread.
#pragma once

#include <vector>

#include "core/base/log.h"
#include "core/loop/event_loop.h"
#include "gpu/monitor/device_monitor.h"
#include "node/worker/worker.h"

namespace lambent {

class DeviceWatch final : public worker::DeviceLinks {
 public:
  // Starts lambent-device. `loop` and `log` outlive it.
  DeviceWatch(loop::EventLoop& loop, LogSink& log, monitor::DeviceMonitorOptions options);

  // Turns the loop until the devices are known. UNAVAILABLE after 15 s.
  Result<std::vector<protocol::DeviceInventory>> find();

  // From now on the worker, which outlives the loop's last turn, hears of its devices: at once of
  // faults that came before it.
  void tell(worker::Worker& worker);

  // Lambent-device serves the links of sandboxes.
  void serve(SandboxId sandbox, const std::vector<DeviceId>& devices, Bytes most_leased,
             OwnedFd listener) override;
  void forget(SandboxId sandbox) override;

 private:
  monitor::DeviceMonitorCallbacks callbacks();

  loop::EventLoop& loop_;
  LogSink& log_;
  worker::Worker* worker_ = nullptr;  // null until it is told of
  std::vector<protocol::DeviceInventory> devices_;
  std::vector<protocol::DeviceFault> early_faults_;
  monitor::DeviceMonitor monitor_;
};

}  // namespace lambent
