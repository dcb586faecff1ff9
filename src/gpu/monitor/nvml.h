// Nvml: the one adapter to libnvidia-ml.so.1, opened by path at run time. A resource, used on the
// main thread of lambent-device. Its calls may hang: DeviceMonitor gives answers in time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/protocol/device_message.h"
#include "gpu/monitor/driver_facts.h"

namespace lambent::monitor {

class Nvml {
 public:
  // UNAVAILABLE if the library cannot be loaded or says that there is no driver.
  // `sysfs` is where the kernel describes devices, and `facts` what CUDA's driver says of them, for
  // what NVML does not tell.
  static Result<std::unique_ptr<Nvml>> open(const std::string& path,
                                            const std::string& sysfs = "/sys",
                                            std::vector<DriverFacts> facts = {});
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // The devices at the time of opening.
  const std::vector<protocol::DeviceInventory>& devices() const;
  // How each is now; a device that does not answer is in the list as unreadable or lost.
  std::vector<protocol::DeviceReading> read() const;
  // The Xids that were reported since the last call (since opening), at most so many; the rest
  // comes with the next call. Does not wait. One of a device that is cut into instances is one of
  // each, unless NVML says which it was. None where the driver has no events.
  // If waiting failed, the set of events is made again; watch_those_that_answer fills it.
  std::vector<protocol::DeviceFault> take_faults(size_t most);
  // Asks for the Xids of devices that answer and were not watched: those that were lost, and all
  // after the set of events was made again.
  void watch_those_that_answer();
  // What went wrong without being anybody's failure, in sentences, once each.
  std::vector<std::string> take_complaints();

 private:
  struct State;
  explicit Nvml(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lambent::monitor
