// Capture: what is queued on a capturing stream becomes nodes of a graph instead. It happens only
// in this process: the executor's streams never capture, so no client's calls can end up in
// another's graph. The rules that make a capture invalid are all here. Under the StateLock.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "gpu/forward_client/graph.h"
#include "gpu/forward_client/state.h"

namespace lambent::forward_client {

// One sequence of capture, over all streams that joined it.
struct Capture {
  uint64_t id = 0;
  Graph* graph = nullptr;
  bool into_existing = false;  // the graph was the program's before
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  uint64_t origin = 0;  // the number of the stream where it began
  pthread_t thread{};
  uint64_t context = 0;
  bool blocks_default = false;  // a blocking stream takes part
  bool invalidated = false;
  bool ended = false;
  List<uint64_t> streams;
  List<GraphNode*> waived;  // what the program took out of a frontier: it need not be joined
  List<GraphNode*> left;    // the ends of streams that joined and were destroyed
  uint32_t points = 0;      // that speak of it
};

// A stream's part in a capture; what an event stands for if it was recorded in one.
struct CapturePoint {
  Capture* capture = nullptr;
  List<GraphNode*> frontier;  // the next node depends on these
  // What cuStreamGetCaptureInfo last told of the frontier.
  List<CUgraphNode> told_nodes;
  List<CUgraphEdgeData> told_edges;
};

// Whether there is any; a look without the lock, for calls that need not take it.
bool captures_are_open();
// Before something is queued on the stream: null in `point` if it does not capture. An error if its
// capture is invalid, or if it is the default stream and must rest while a blocking one captures.
CUresult find_point(uint64_t stream, const Context& context, CapturePoint** point)
    REQUIRES(state_mutex);
// Puts a node into a capture.
CUresult capture_node(CapturePoint& point, const CUgraphNodeParams& what,
                      GraphNode** made = nullptr) REQUIRES(state_mutex);
CUresult invalidate(CapturePoint& point, CUresult why);

// An event in a capture is a point of it.
CUresult record_in_capture(CapturePoint& point, uint64_t event) REQUIRES(state_mutex);
CUresult wait_in_capture(CapturePoint& point, uint64_t event) REQUIRES(state_mutex);
// A stream that does not capture waits for an event that was recorded in a capture: it joins.
CUresult join_capture(uint64_t stream, const Context& context, CapturePoint& recorded)
    REQUIRES(state_mutex);
CapturePoint* captured_point_of(uint64_t event) REQUIRES(state_mutex);
// It is recorded again, or destroyed.
void forget_captured_event(uint64_t event) REQUIRES(state_mutex);

// The stream may not be waited for or asked while it captures.
CUresult refuse_if_capturing(uint64_t stream, const Context& context) REQUIRES(state_mutex);
// Nor may the whole context.
CUresult refuse_if_context_captures(const Context& context) REQUIRES(state_mutex);
// Nor may an event that was recorded in a capture.
CUresult refuse_if_captured(uint64_t event) REQUIRES(state_mutex);
// For calls that are unsafe while something is captured: memory is allocated or freed.
CUresult refuse_unsafe_call() REQUIRES(state_mutex);

CUresult begin_capture(uint64_t stream, const Context& context, CUstreamCaptureMode mode,
                       Graph* into, List<GraphNode*>* frontier) REQUIRES(state_mutex);
CUresult end_capture(uint64_t stream, CUgraph* graph) REQUIRES(state_mutex);
// A capturing stream goes. The capture that began on it cannot go on; from one that it joined it
// drops out, and what it did has to be joined.
void abandon_capture(uint64_t stream) REQUIRES(state_mutex);
// All of a context go.
void forget_captures_of(uint64_t context) REQUIRES(state_mutex);

CUresult is_capturing(uint64_t stream, const Context& context, CUstreamCaptureStatus* status)
    REQUIRES(state_mutex);
// Adds those that are not there yet.
bool merge(List<GraphNode*>* frontier, const List<GraphNode*>& more);
// The capture mode of the calling thread, changed to the one given.
CUstreamCaptureMode exchange_capture_mode(CUstreamCaptureMode mode);

}  // namespace lambent::forward_client
