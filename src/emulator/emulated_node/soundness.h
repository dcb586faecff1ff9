// Whether a node's state can be what processes made of it, and none has written nonsense into it. A
// process that means to deceive can always do so: this finds damage, and keeps what is used as an
// index or a bound in its limits. Pure; used by the holder of the node's lock.
#pragma once

#include "emulator/emulated_node/node.h"

namespace lambent::emulated_node {

constexpr uint64_t kNodeMagic = 0x454d55474e4f4431;  // "EMUGNOD1"

// Whether a machine like that can be.
bool is_possible(const NodeSpec& spec);

// Whether the model of a device with so many multiprocessors can be moved on.
bool is_sound(const DeviceModel& model, int multiprocessors);

// What is quick to look at, with every use of the node: that it is this node, and its bounds.
bool is_sound(const NodeState& state, const NodeSpec& spec);
// All else that has only some values.
bool is_sound_in_depth(const NodeState& state, const NodeSpec& spec);

}  // namespace lambent::emulated_node
