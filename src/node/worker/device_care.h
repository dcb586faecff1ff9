// DeviceCare: which devices may be given work, and why the others may not: what lambent-device read
// and heard of each, and what the operator said. A value of Worker's, on the loop thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/protocol/device_message.h"
#include "decide/dispatch/event.h"
#include "decide/scheduling/moving_average.h"
#include "node/catalog/records.h"

namespace lambent::worker {

enum class DeviceState {
  kHealthy,
  kSilent,   // it did not answer the last time; it gets no new work until it does
  kDrained,  // it answers, but gets no work until it was reset or the operator says it is well
  kLost,     // it fell off the bus or needs a reset
};
std::string_view name_of(DeviceState state);

struct DeviceStatus {
  DeviceState state = DeviceState::kHealthy;
  Duration since{};                   // when it came into this state, by the wall clock
  std::string reason;                 // why it gets no work; empty if it does
  std::string notice;                 // what is to be known of it all the same; mostly empty
  std::map<uint32_t, uint64_t> xids;  // how often each was reported since the worker's start
  // The last; what NVML did not tell then is as it was told before.
  protocol::DeviceReading reading;
};

// An error that ECC cannot correct, a repair of memory that failed and an Xid that is the device's
// drain a device. That ends by itself when it was reset: when it was lost and answers again, also
// if only Xid 79 told that it was, or when its count of errors since the reset has gone back; else
// when the operator says so. A worker that is started again says nothing of the device.
class DeviceCare {
 public:
  // `utilisation_average`: over which dispatch is told of the utilisation; zero: as it was read.
  explicit DeviceCare(Duration utilisation_average = {})
      : utilisation_average_(utilisation_average) {}

  void read(DeviceId device, const protocol::DeviceReading& reading, Duration now);
  void fault(DeviceId device, const protocol::DeviceFault& fault, Duration now);
  // The operator wants it to get no more work; `reason` in their words, or empty.
  void drain(DeviceId device, const std::string& reason, Duration now);
  // The operator says that it is well: what is known against it so far counts no more.
  // FAILED_PRECONDITION: it is lost.
  Result<void> undrain(DeviceId device, Duration now);

  // What is to outlive the worker of it, without its uuid, and taking that up again. What it was
  // reset of meanwhile shows in its next count of errors, as at any other time.
  catalog::DeviceRecord record(DeviceId device) const;
  void restore(DeviceId device, const catalog::DeviceRecord& record, Duration now);

  // A device that nothing was heard of is healthy.
  const DeviceStatus& status(DeviceId device) const;
  bool serves(DeviceId device) const { return status(device).state == DeviceState::kHealthy; }
  // What dispatch is to be told of it. Dispatch gives a drained device up as it does a lost one,
  // for what sandboxes have on it is not to be used again.
  dispatch::DeviceReading event(DeviceId device) const;

 private:
  struct Record {
    DeviceStatus status;
    std::string sickness;   // what is wrong with the device; empty: nothing
    bool fell_off = false;  // the bus, since it last was well
    bool drained_by_operator = false;
    std::string operators_reason;
    uint64_t errors_accepted = 0;  // of memory: so many the operator knows about
    bool repair_accepted = false;
    std::optional<scheduling::MovingAverage> average = {};
    double utilisation = 0;  // by it
  };

  static void judge_memory(Record& record, const protocol::DeviceReading& reading);
  static void forgive(Record& record, bool was_reset);
  static void settle(Record& record, Duration now);

  Duration utilisation_average_;
  std::map<DeviceId, Record> records_;
};

}  // namespace lambent::worker
