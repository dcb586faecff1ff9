// Executable graphs: a copy of the graph as it was, and what the executor made of it. Under the
// StateLock, but for what says otherwise.
#pragma once

#include <cstdint>

#include "gpu/forward_client/graph.h"
#include "gpu/forward_client/state.h"

namespace lambent::forward_client {

struct Executable {
  uint64_t number = 0;  // the executor's
  uint64_t context = 0;
  cuuint64_t flags = 0;
  Graph* graph = nullptr;     // its own copy
  Table<GraphNode*> twins;    // in that, by the numbers of the nodes that it was made of
  List<GraphNode*> by_place;  // null: what lies before and behind a child's nodes
  List<uint64_t> tokens;      // of what runs here
};

// The image of a graph, with what it needs here.
struct GraphImage {
  char* bytes = nullptr;
  size_t size = 0, room = 0;
  List<GraphNode*> by_place;
  List<uint64_t> tokens;
};

// Writes all nodes of the copy, and gives those that run here their tokens. `offender`: the node
// that is in the way.
CUresult write_image(Graph& copy, uint64_t context, GraphImage* image, GraphNode** offender)
    REQUIRES(state_mutex);
// Only one node, without what it depends on.
CUresult write_node(GraphNode& node, uint64_t context, GraphImage* image) REQUIRES(state_mutex);
// Its tokens run out, unless they were taken.
void free_image(GraphImage* image) REQUIRES(state_mutex);

// Null if there is none.
Executable* find_executable(CUgraphExec handle) REQUIRES(state_mutex);
GraphNode* find_twin(Executable& executable, CUgraphNode handle);
// Forgets it; what its launches have still to run stays until they have.
void free_executable(Executable* executable) REQUIRES(state_mutex);
// After the graph was replaced by one of the same structure, or made.
bool fill_twins(Executable& executable, const Table<GraphNode*>* before);

// What runs here for a graph: until its last launch has come by, or was refused.
void retire(uint64_t token) REQUIRES(state_mutex);
void came_by(uint64_t token) REQUIRES(state_mutex);

}  // namespace lambent::forward_client
