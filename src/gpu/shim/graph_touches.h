// What a launch of an executable graph names of the program's memory: its nodes are looked through
// when it is made ready and when it is changed, as the parameters of a launch are. For the working
// set (touches.h); any thread that holds a GateScope.
#pragma once

#include "gpu/shim/passed_types.h"

namespace lambent::shim {

// Before the driver makes an executable graph of this description, or changes one to it: of memory
// that copies and fills name it keeps the side on which that lies, and refuses to change it to
// another. So what is offloaded is fetched, and nodes that were described, or captured, while their
// memory lay elsewhere are described again: every executable graph knows it on the device.
void place_graph(Handle description);
// Before a node is added, or one of an executable graph is changed, with these CUgraphNodeParams.
void place_node(const void* parameters);
// The driver has made this executable graph of that description. Flags: CUgraphInstantiate_flags.
void graph_is_ready(Handle executable, Handle description, unsigned long long flags);
// The driver has given all its nodes the parameters of that description's; or tried to, and it is
// not known which.
void graph_is_updated(Handle executable, Handle description);
void graph_is_updated_in_part(Handle executable);
// The driver has given one node of it new parameters, as the call describes them.
void kernel_node_is_set(Handle executable, Handle node, const void* parameters);
void kernel_node_is_set_v1(Handle executable, Handle node, const void* parameters);
void copy_node_is_set(Handle executable, Handle node, const void* parameters);
void fill_node_is_set(Handle executable, Handle node, const void* parameters);
void child_node_is_set(Handle executable, Handle node, Handle child);
// In a CUgraphNodeParams.
void node_is_set(Handle executable, Handle node, const void* parameters);
// Before the driver ends it, and can give its handle to another.
void graph_is_ended(Handle executable);

// It is about to be launched. Perhaps waits until what its kernels name was fetched.
void touch_graph(Handle executable);

}  // namespace lambent::shim
