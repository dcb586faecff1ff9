// DeviceMonitor: the worker's view of the node's devices, through a supervised lambent-device
// process. Lives on the loop thread and calls back there; NVML may hang without the worker noticing
// more than silence.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/base/ids.h"
#include "core/base/log.h"
#include "core/loop/event_loop.h"
#include "core/protocol/device_message.h"

namespace lambent::monitor {

struct DeviceMonitorOptions {
  std::string program;                   // path of lambent-device
  std::string nvml;                      // path of libnvidia-ml.so.1
  std::vector<std::string> environment;  // of the process, whole: "NAME=value"
  // Holds libcuda.so.1, which is asked what NVML does not tell of devices; empty: it is not asked.
  std::string driver_folder;
  Bytes host_memory;           // what it may lease to functions for device memory that moved out
  bool sparse_leases = false;  // their pages come when they are written, and count for the writer
  Duration period = milliseconds(200);
  Duration most_silence = seconds(2);
  Duration most_start_time = seconds(15);  // NVML by itself can take seconds to start
  Duration first_back_off = milliseconds(250);
  Duration most_back_off = seconds(30);
};

struct DeviceMonitorCallbacks {
  // The devices: at the first start, and again only if it is no longer the same.
  std::function<void(const std::vector<protocol::DeviceInventory>&)> devices_found;
  std::function<void(const std::vector<protocol::DeviceReading>&)> devices_read;
  // The process ended, fell silent or never came up; it is started again after a while. Readings
  // are stale from here to the next devices_read.
  std::function<void(const Error&)> devices_silent;
  // Xids were reported; those of a time without a process are never told. May be empty.
  std::function<void(const std::vector<protocol::DeviceFault>&)> devices_faulted = {};
};

// No callback may destroy the monitor.
class DeviceMonitor {
 public:
  // `loop` and `log` outlive it.
  DeviceMonitor(loop::EventLoop& loop, LogSink& log, DeviceMonitorOptions options,
                DeviceMonitorCallbacks callbacks);
  // Ends the process.
  ~DeviceMonitor();
  DeviceMonitor(const DeviceMonitor&) = delete;
  DeviceMonitor& operator=(const DeviceMonitor&) = delete;

  void start();

  // From now on lambent-device serves the processes of this sandbox, which call at `listener` (a
  // listening SOCK_SEQPACKET socket): turns on the link of the device (as NVML numbers it), leases
  // of host memory up to `most_leased`. A lambent-device that is started later is told again.
  void serve_sandbox(SandboxId sandbox, std::vector<uint32_t> devices, Bytes most_leased,
                     OwnedFd listener);
  // The sandbox is gone, and what it leased with it.
  void forget_sandbox(SandboxId sandbox);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lambent::monitor
