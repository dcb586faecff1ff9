// Drafts: copies of graphs on their way to the executor, which makes an executable graph of one, or
// gives one that it has the nodes of another. Any thread.
#pragma once

#include <cstdint>

#include "gpu/cuda_abi/driver_types.h"
#include "gpu/forward_client/executables.h"

namespace lambent::forward_client {

// Made under the StateLock; sent, and ended, without.
struct Draft {
  uint64_t context = 0;
  Graph* graph = nullptr;  // the copy
  GraphImage image;

  Draft() = default;
  ~Draft();
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
};

// Writes the image of its graph; under the lock. `offender`: the node of it that is in the way.
CUresult write(Draft* draft, GraphNode** offender) REQUIRES(state_mutex);
// The program's node behind a place of the image; null if there is none.
CUgraphNode node_at(const Draft& draft, uint64_t place);

// Makes an executable graph, and tells its number. `offender` is the program's node.
CUresult instantiate(Draft* draft, cuuint64_t flags, uint64_t* number, CUgraphNode* offender);
// Gives an executable graph the draft's nodes.
CUresult update(uint64_t number, Draft* draft, CUgraphExecUpdateResultInfo* info);

}  // namespace lambent::forward_client
