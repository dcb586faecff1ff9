// What a fault plan does to the devices of a node, and waiting: for events that tell of it, and for
// the end of a checkpoint.
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "emulator/emulated_node/node.h"

namespace lambent::emulated_node {

bool Node::Guard::strike(const Fault& fault) {
  NodeState& state = *node_.current();
  if (fault.device < 0 || fault.device >= node_.spec_.device_count) return false;
  DeviceHealth& health = state.devices[fault.device].health;
  uint32_t before = state.events.count;
  switch (fault.action) {
    case FaultAction::kLose:
      lose(health, state.events, fault.device);
      break;
    case FaultAction::kCorrupt:
      corrupt(health, state.events, fault.device);
      break;
    case FaultAction::kReport:
      report(state.events, fault.device, fault.xid);
      break;
    case FaultAction::kStick:
      health.stuck = 1;
      break;
    case FaultAction::kSlow:
      health.slowdown = fault.factor;
      break;
    case FaultAction::kReset:
      reset(health);
      break;
    case FaultAction::kFail:
    case FaultAction::kDelay:
      return false;  // these are about calls
  }
  if (state.events.count != before) {
    syscall(SYS_futex, &state.events.count, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
  }
  return true;
}

void Node::wait_while_state(uint32_t row, uint32_t state) const {
  const uint32_t* word = &current()->rows[row].checkpoint.state;
  while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == state) {
    syscall(SYS_futex, word, FUTEX_WAIT, state, nullptr, nullptr, 0);
  }
}

void Node::wake_process(uint32_t row) const {
  syscall(SYS_futex, &current()->rows[row].checkpoint.state, FUTEX_WAKE, INT32_MAX, nullptr,
          nullptr, 0);
}

void Node::wait_for_event(uint32_t seen, int timeout_ms) const {
  timespec span{timeout_ms / 1000, (timeout_ms % 1000) * 1'000'000L};
  syscall(SYS_futex, &current()->events.count, FUTEX_WAIT, seen, &span, nullptr, 0);
}

}  // namespace lambent::emulated_node
