// Stream capture: work put into a capturing stream becomes nodes of a graph instead. The rules that
// make a capture invalid are all here; the API functions ask. State under the lock of the graphs.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "emulator/emulated_cuda/graph.h"
#include "emulator/emulated_cuda/stream.h"

namespace lambent::emulated_cuda {

class Process;
struct Context;
class Event;

// One sequence of capture, over all streams that joined it.
struct Capture {
  uint64_t id;
  std::shared_ptr<Graph> graph;
  bool into_existing;  // the graph was the program's before
  CUstreamCaptureMode mode;
  const Stream* origin;
  std::thread::id thread;
  const void* context;
  bool blocks_legacy = false;  // a blocking stream takes part
  bool invalidated = false;
  bool ended = false;
  std::vector<std::weak_ptr<Stream>> streams;
  std::vector<Edge> waived;  // what the program took out of a frontier: it need not be joined
  std::vector<Edge> left;    // the frontiers of streams that were destroyed: they have to be
};

// A stream's part in a capture; what an event stands for if it was recorded in one.
struct CapturePoint {
  std::shared_ptr<Capture> capture;
  std::vector<Edge> frontier;  // the next node depends on these
  // What cuStreamGetCaptureInfo last told of the frontier.
  std::vector<CUgraphNode> told_nodes;
  std::vector<CUgraphEdgeData> told_edges;
};

// Adds the edges whose nodes are not among those of a frontier yet.
void merge_edges(std::vector<Edge>* frontier, const std::vector<Edge>& more);

// Puts an operation into a capture. Returns what the program is told.
CUresult capture_operation(Process& process, const std::shared_ptr<Context>& context,
                           const std::shared_ptr<Stream>& stream, Operation operation);
// The same for anything that becomes a node; `node` may be null.
CUresult capture_node(Process& process, const std::shared_ptr<Context>& context, Stream& stream,
                      NodeWork work, GraphNode** node);
// An allocation in a capturing stream becomes an allocation node; its address is known at once.
CUresult capture_allocation(Process& process, const std::shared_ptr<Context>& context,
                            Stream& stream, int device, size_t bytes, CUdeviceptr* address);
// A stream that is not capturing waits for an event that was recorded in a capture: it joins.
CUresult join_capture(Process& process, const std::shared_ptr<Stream>& stream, Event& event);

// The stream may not be used so while it captures (synchronise, query, a synchronous copy). For the
// legacy stream: not while a blocking stream of its context captures.
CUresult refuse_if_capturing(Process& process, const Context& context, const Stream& stream);
// Nor may the whole context.
CUresult refuse_if_context_captures(Process& process, const Context& context);
// Nor may an event that was recorded in a capture.
CUresult refuse_if_captured(Process& process, const Event& event);
// For calls that are unsafe while something is captured: memory is allocated, a module loaded.
CUresult refuse_unsafe_call(Process& process);

CUresult begin_capture(Process& process, const std::shared_ptr<Context>& context,
                       const std::shared_ptr<Stream>& stream, CUstreamCaptureMode mode,
                       std::shared_ptr<Graph> graph, std::vector<Edge> frontier);
CUresult end_capture(Process& process, const std::shared_ptr<Stream>& stream, CUgraph* graph);
// A capturing stream is destroyed. The capture that began on it cannot go on; from one that it
// joined it drops out, as programs do that made it for a part of the graph.
void abandon_capture(Process& process, const std::shared_ptr<Stream>& stream);
// The capture mode of the calling thread, changed to the one given.
CUstreamCaptureMode exchange_capture_mode(CUstreamCaptureMode mode);

}  // namespace lambent::emulated_cuda
