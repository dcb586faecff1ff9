// DevicePoolParts: the pool of one GPU whose memory does not move, and sandboxes of one function in
// it. Included by tests only.
#pragma once

#include <gtest/gtest.h>

#include "decide/dispatch/testing/parts.h"

namespace lambent::dispatch {

inline constexpr FunctionId kF{1};

class DevicePoolParts : public ::testing::Test {
 protected:
  DevicePoolParts() { parts_.add_function(kF, Bytes::gib(6), seconds(2)); }
  DevicePool& pool() { return parts_.pools.gpu; }
  scheduling::SandboxState state(scheduling::SandboxSlot slot) {
    return pool().fleet().sandbox(slot).state;
  }
  scheduling::SandboxSlot plan(uint64_t id) {
    return pool().plan(SandboxId{id}, kF, scheduling::Place{0, scheduling::kNoSandbox},
                       static_cast<InvocationSlot>(id));
  }
  // One that has run.
  scheduling::SandboxSlot idle(uint64_t id) {
    const scheduling::SandboxSlot slot = plan(id);
    pool().start(slot);
    pool().started(slot);
    pool().run(slot, 0);
    pool().fleet().unassign(slot);
    pool().rest(slot);
    return slot;
  }

  Parts parts_{one_gpu(scheduling::MemoryRule::kEverySandbox)};
};

}  // namespace lambent::dispatch
