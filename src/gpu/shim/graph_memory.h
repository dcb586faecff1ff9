// The memory that allocation nodes of CUDA graphs hold, as the driver tells it after the fact. Any
// thread; inside hooks.
#pragma once

namespace lambent::shim {

// A graph got a node that allocates: from now on launches are followed by a look at the driver.
void graphs_allocate();
// Asks the driver what graphs hold on each device, and counts that. Nothing before graphs_allocate.
void recount_graph_memory();

}  // namespace lambent::shim
