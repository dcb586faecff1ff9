// The checkpoint of a process: a state machine in the process's row of the node, so that any
// process of the node can lock, checkpoint, restore and unlock another. The holder of the node's
// lock calls these; waiting is the caller's business.
#pragma once

#include "emulator/emulated_node/node.h"

namespace lambent::emulated_node {

enum class CheckpointResult {
  kDone,
  kNoProcess,
  kIllegalState,
  kNotSupported,  // managed memory, or memory that other processes may hold
  kNoMemory,
  kLost,  // of a device that was lost meanwhile; the process has failed
};

// The row of the process with this id, as a process in that namespace means it; kNobody if there is
// none.
uint32_t find_process(const NodeState& state, int pid, uint64_t pid_namespace);

// From running to locked: its calls block from now on. The work that it has submitted goes on;
// pending_work() tells how much.
CheckpointResult lock_process(NodeState& state, uint32_t row);
// From locked to running.
CheckpointResult unlock_process(NodeState& state, uint32_t row);

// From locked to checkpointed: what it holds on the devices is counted for the host. Tells how many
// bytes that were.
CheckpointResult checkpoint_process(NodeState& state, uint32_t row, uint64_t* bytes);

// From checkpointed to locked, if the devices have room.
CheckpointResult restore_process(Node::Guard& guard, uint32_t row, uint64_t* bytes);

}  // namespace lambent::emulated_node
