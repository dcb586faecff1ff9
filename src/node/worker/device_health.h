// DeviceHealth: the state of every device from the readings and faults of lambent-device and from
// the operator's drains; it outlives the worker in the catalog. Tells dispatch, pipelines and
// executors which devices serve. Used by the parts of Worker on the loop thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/loop/event_loop.h"
#include "core/protocol/device_message.h"
#include "node/catalog/catalog.h"
#include "node/worker/device_care.h"
#include "node/worker/dispatch_driver.h"
#include "node/worker/executor_keeper.h"

namespace lambent::worker {

class DeviceHealth {
 public:
  using Done = std::function<void(Result<void>)>;

  // All outlive it; the constructor uses none.
  struct Dependencies {
    loop::EventLoop& loop;
    LogSink& log;
    catalog::Catalog& catalog;
    DeviceCare& care;
    DispatchDriver& driver;
    PipelineHost& pipelines;
    ExecutorHost& executors;
    ExecutorKeeper& keeper;
    std::vector<protocol::DeviceInventory> devices;  // all, those of pipelines too
  };

  explicit DeviceHealth(Dependencies dependencies) : uses_(std::move(dependencies)) {}

  const std::vector<protocol::DeviceInventory>& devices() const { return uses_.devices; }

  // What lambent-device reports: one reading; a round of readings, in which a device that is
  // missing is lost; nothing, because NVML may hang; Xids.
  void device_reading(const protocol::DeviceReading& reading);
  void devices_read(const std::vector<protocol::DeviceReading>& readings);
  void devices_silent();
  void devices_faulted(const std::vector<protocol::DeviceFault>& faults);

  // Gives a device no more work, and work again. `name` is its place ("0", "0:2"; "0" are also all
  // instances of that GPU) or how its UUID begins. NOT_FOUND; FAILED_PRECONDITION: it is lost.
  // `done` once it is in the catalog; what the catalog fails with otherwise: it holds until the
  // worker ends.
  void drain(const std::string& name, const std::string& reason, Done done);
  void undrain(const std::string& name, Done done);

  // As they were read from the catalog.
  void restore(const std::vector<catalog::DeviceRecord>& records);

 private:
  // To dispatch, pipelines and executors, after something was learnt of it.
  void publish(DeviceId device, DeviceState before);
  // What outlives the worker of a device; none of one without a uuid.
  std::optional<catalog::DeviceRecord> record_of(DeviceId device) const;
  void save_if_changed(DeviceId device);
  void save(DeviceId device, Done done);
  Result<std::vector<DeviceId>> devices_called(const std::string& name) const;

  const Dependencies uses_;
  std::map<std::string, catalog::DeviceRecord> saved_;  // by uuid, as in the catalog
};

}  // namespace lambent::worker
