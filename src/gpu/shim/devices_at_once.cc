#include "gpu/shim/devices_at_once.h"

#include <pthread.h>
#include <sys/prctl.h>

#include "driver_slots.h"
#include "gpu/shim/driver_mapping.h"
#include "gpu/shim/gate.h"

namespace lambent::shim {
namespace {

using MoveStatus = protocol::MemoryMoveStatus;

struct Part {
  void* owner = nullptr;
  DeviceMove move = nullptr;
  const DeviceLink* link = nullptr;
  Device device = 0;
  pthread_t thread = {};
  bool has_thread = false;
  MoveStatus status = MoveStatus::kDone;
};

// As the agent's own thread, of which it inherits that no signal interrupts it.
void* run_part(void* given) {
  Part& part = *static_cast<Part*>(given);
  prctl(PR_SET_NAME, "lambent-memory");
  const GateBypass gate_bypass;
  const InsideHook inside;
  int capture_mode = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
  REAL(cuThreadExchangeStreamCaptureMode, int*)(&capture_mode);
  DeviceLink link(*part.link, DeviceLink::TurnsOnly());
  part.status = part.move(part.owner, part.device, link);
  return nullptr;
}

MoveStatus worse_of(MoveStatus one, MoveStatus other) {
  return one == MoveStatus::kFailed || other == MoveStatus::kDone ? one : other;
}

}  // namespace

protocol::MemoryMoveStatus move_at_once(uint64_t devices, DeviceLink& link, void* owner,
                                        DeviceMove move) {
  Part parts[kMostDevices];
  int count = 0;
  for (Device device = 0; device < kMostDevices; ++device) {
    if ((devices >> device & 1) == 0) continue;
    parts[count].owner = owner;
    parts[count].move = move;
    parts[count].link = &link;
    parts[count++].device = device;
  }
  for (int i = 1; i < count; ++i) {
    parts[i].has_thread = pthread_create(&parts[i].thread, nullptr, run_part, &parts[i]) == 0;
  }
  // What got no thread follows on this one.
  for (int i = 0; i < count; ++i) {
    if (!parts[i].has_thread) parts[i].status = move(owner, parts[i].device, link);
  }
  MoveStatus status = MoveStatus::kDone;
  for (int i = 0; i < count; ++i) {
    if (parts[i].has_thread) pthread_join(parts[i].thread, nullptr);
    status = worse_of(status, parts[i].status);
  }
  return status;
}

}  // namespace lambent::shim
