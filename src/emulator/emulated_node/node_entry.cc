// How a process comes to the node's state, and what becomes of it where it cannot: the lock is not
// to be had, or the state is damaged.
#include <time.h>

#include <cstdio>
#include <cstring>

#include "emulator/emulated_node/byte_locks.h"
#include "emulator/emulated_node/node.h"
#include "emulator/emulated_node/soundness.h"

namespace lambent::emulated_node {
namespace {

int64_t real_now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

// By what it has written down: a process that means harm writes nothing or another's row.
std::string holder_of(const NodeState& state) {
  const uint32_t writing = state.writing;
  if (writing == kNobody) return "a process that only looks at it";
  if (writing == 0 || writing > kMaxProcesses) return "a process that does not say who it is";
  const ProcessRow& row = state.rows[writing - 1];
  const std::string program(row.program, strnlen(row.program, sizeof row.program));
  return "process " + std::to_string(row.pid) + " (" + program + ")";
}

}  // namespace

bool Node::enter() {
  const bool has_row = own_row_ != kNobody;
  const bool was_cut_off = is_cut_off();
  if (was_cut_off && has_row) return false;
  const int64_t patience_ns = was_cut_off ? 0 : has_row ? kPatience_ns : kPatienceOfReaders_ns;
  if (!lock_within(fd_, kLockByte, patience_ns)) {
    if (!was_cut_off) {
      cut_off("its lock is held for more than " + std::to_string(patience_ns / 1'000'000'000) +
              " s by " + holder_of(*shared_));
    }
    // Who only looks gives the devices up no earlier than who uses them.
    if (has_row || real_now_ns() - cut_off_since_ns_ > kPatience_ns) lose_devices();
    return false;
  }
  const bool sound = is_sound(*shared_, spec_) && (has_row || is_sound_in_depth(*shared_, spec_));
  if (!sound) {
    const bool can_be_made_again =
        pristine_ && !has_row && !is_locked_by_others(fd_, kFirstRowByte, kMaxProcesses);
    if (!can_be_made_again) {
      unlock(fd_, kLockByte);
      cut_off("a process has damaged it");
      lose_devices();
      return false;
    }
    std::memcpy(static_cast<void*>(shared_), pristine_, sizeof(NodeState));
    std::fprintf(stderr, "emulated GPU: the node was damaged and is made again\n");
  }
  state_.store(shared_, std::memory_order_release);
  return true;
}

void Node::cut_off(const std::string& why) {
  if (is_cut_off()) return;
  cut_off_since_ns_ = real_now_ns();
  std::fprintf(stderr, "emulated GPU: the node cannot be used: %s\n", why.c_str());
  if (own_state_) {
    std::memset(static_cast<void*>(own_state_.get()), 0, sizeof(NodeState));
  } else {
    own_state_ = std::make_unique<NodeState>();
  }
  NodeState& own = *own_state_;
  initialise(own, spec_);
  const NodeState& before = pristine_ ? *pristine_ : *shared_;
  own.epoch_real_ns = before.epoch_real_ns;
  own.epoch_virtual_ns = before.epoch_virtual_ns;
  for (int i = 0; i < spec_.device_count; i++) {
    own.devices[i].mig = before.devices[i].mig;
    own.devices[i].health.epoch = shared_->devices[i].health.epoch;
  }
  if (own_row_ != kNobody) {
    own.rows[own_row_].used = 1;
    own.row_bound = own_row_ + 1;
  }
  state_.store(&own, std::memory_order_release);
}

// Whatever this process has on the devices is gone, and each of its calls says so.
void Node::lose_devices() {
  for (int i = 0; i < spec_.device_count; i++)
    lose(own_state_->devices[i].health, own_state_->events, i);
}

}  // namespace lambent::emulated_node
