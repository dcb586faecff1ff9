#include "gpu/forward_client/captures.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace lambent::forward_client {
namespace {

thread_local CUstreamCaptureMode t_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
std::atomic<size_t> g_open{0};

CUresult invalidate(Capture& capture, CUresult why) {
  capture.invalidated = true;
  return why;
}

template <typename Thing>
Thing* make() {
  void* memory = std::calloc(1, sizeof(Thing));
  return memory == nullptr ? nullptr : new (memory) Thing{};
}

CapturePoint* new_point(Capture* capture, const List<GraphNode*>& frontier) {
  auto* point = make<CapturePoint>();
  if (point == nullptr) return nullptr;
  if (!point->frontier.add_all(frontier)) {
    point->frontier.clear();
    std::free(point);
    return nullptr;
  }
  point->capture = capture;
  ++capture->points;
  return point;
}

void free_capture(Capture* capture) {
  capture->streams.clear();
  capture->waived.clear();
  capture->left.clear();
  std::free(capture);
}

void free_point(CapturePoint* point) {
  Capture* capture = point->capture;
  if (--capture->points == 0 && capture->ended) free_capture(capture);
  point->frontier.clear();
  point->told_nodes.clear();
  point->told_edges.clear();
  std::free(point);
}

CapturePoint* point_of(uint64_t stream) REQUIRES(state_mutex) {
  CapturePoint** found = state().captured_streams.find(stream);
  return found == nullptr ? nullptr : *found;
}

void leave(uint64_t stream) REQUIRES(state_mutex) {
  CapturePoint* point = point_of(stream);
  if (point == nullptr) return;
  state().captured_streams.erase(stream);
  free_point(point);
}

bool is_blocking(uint64_t stream) REQUIRES(state_mutex) {
  const StreamRecord* found = state().streams.find(stream);  // null: a thread's default stream
  return found == nullptr || (found->flags & CU_STREAM_NON_BLOCKING) == 0;
}

// The default stream is out of use while a blocking stream of its context captures.
CUresult default_stream_rests(const Context& context, bool invalidates) REQUIRES(state_mutex) {
  CUresult result = CUDA_SUCCESS;
  for (Capture* capture : state().captures) {
    if (capture->context != context.number || !capture->blocks_default) continue;
    if (invalidates) capture->invalidated = true;
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return result;
}

CUresult take_part(Capture& capture, uint64_t stream, const List<GraphNode*>& frontier)
    REQUIRES(state_mutex) {
  CapturePoint* point = new_point(&capture, frontier);
  if (point == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!capture.streams.add(stream) || !state().captured_streams.add(stream, point)) {
    free_point(point);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (is_blocking(stream)) capture.blocks_default = true;
  return CUDA_SUCCESS;
}

// Whether each of `ends` is one of `from` or comes before one of them.
bool reaches(const List<GraphNode*>& from, const List<GraphNode*>& ends, Graph& graph) {
  for (GraphNode* node : graph.nodes) node->waiting = 0;  // 1: it was seen
  List<GraphNode*> open;
  bool good = open.add_all(from);
  while (good && open.count() > 0) {
    GraphNode* node = open[open.count() - 1];
    open.remove_last();
    if (node->waiting == 1) continue;
    node->waiting = 1;
    good = open.add_all(node->dependencies);
  }
  open.clear();
  for (const GraphNode* end : ends) good &= end->waiting == 1;
  return good;
}

// Its streams do not capture any more. The capture itself goes with the last event of it.
void close(Capture* capture) REQUIRES(state_mutex) {
  capture->ended = true;
  if (capture->graph != nullptr) capture->graph->capturing = false;
  state().captures.remove(capture);
  g_open = state().captures.count();
  ++capture->points;  // it stays to the end of this
  for (const uint64_t stream : capture->streams) {
    CapturePoint* point = point_of(stream);
    if (point != nullptr && point->capture == capture) leave(stream);
  }
  if (--capture->points == 0) free_capture(capture);
}

// What the capture made is dropped unless the program gets it.
void drop_graph(Capture& capture) REQUIRES(state_mutex) {
  if (!capture.into_existing && capture.graph != nullptr) free_graph(capture.graph);
  capture.graph = nullptr;
}

}  // namespace

bool captures_are_open() { return g_open.load(std::memory_order_relaxed) != 0; }

CUresult find_point(uint64_t stream, const Context& context, CapturePoint** point) {
  *point = nullptr;
  if (state().captures.count() == 0) return CUDA_SUCCESS;
  if (stream == context.default_stream) return default_stream_rests(context, true);
  *point = point_of(stream);
  if (*point == nullptr || !(*point)->capture->invalidated) return CUDA_SUCCESS;
  return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

CUresult invalidate(CapturePoint& point, CUresult why) { return invalidate(*point.capture, why); }

CUresult capture_node(CapturePoint& point, const CUgraphNodeParams& what, GraphNode** made) {
  Capture& capture = *point.capture;
  GraphNode* node = nullptr;
  const CUresult result = add_node(*capture.graph, point.frontier, what, &node);
  if (result == CUDA_ERROR_NOT_SUPPORTED) {
    return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  if (result != CUDA_SUCCESS) return result;
  point.frontier.empty();
  if (!point.frontier.add(node)) return invalidate(capture, CUDA_ERROR_OUT_OF_MEMORY);
  if (made != nullptr) *made = node;
  return CUDA_SUCCESS;
}

CapturePoint* captured_point_of(uint64_t event) {
  CapturePoint** found = state().captured_events.find(event);
  return found == nullptr ? nullptr : *found;
}

void forget_captured_event(uint64_t event) {
  CapturePoint* point = captured_point_of(event);
  if (point == nullptr) return;
  state().captured_events.erase(event);
  free_point(point);
}

CUresult record_in_capture(CapturePoint& point, uint64_t event) {
  CapturePoint* recorded = new_point(point.capture, point.frontier);
  if (recorded == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  forget_captured_event(event);
  if (state().captured_events.add(event, recorded)) return CUDA_SUCCESS;
  free_point(recorded);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult wait_in_capture(CapturePoint& point, uint64_t event) {
  Capture& capture = *point.capture;
  const CapturePoint* recorded = captured_point_of(event);
  if (recorded == nullptr) {
    const EventRecord* known = state().events.find(event);
    if (known == nullptr || !known->recorded) return CUDA_SUCCESS;  // nothing to wait for
    return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  }
  if (recorded->capture != &capture) {
    if (!recorded->capture->ended) recorded->capture->invalidated = true;
    return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  return merge(&point.frontier, recorded->frontier) ? CUDA_SUCCESS
                                                    : invalidate(capture, CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult join_capture(uint64_t stream, const Context& context, CapturePoint& recorded) {
  Capture& capture = *recorded.capture;
  if (capture.ended) return CUDA_ERROR_CAPTURED_EVENT;
  if (capture.invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream == context.default_stream) {
    return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  }
  return take_part(capture, stream, recorded.frontier);
}

CUresult refuse_if_capturing(uint64_t stream, const Context& context) {
  CapturePoint* point = nullptr;
  if (const CUresult result = find_point(stream, context, &point)) return result;
  return point == nullptr ? CUDA_SUCCESS
                          : invalidate(*point->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

CUresult refuse_if_context_captures(const Context& context) {
  CUresult result = CUDA_SUCCESS;
  for (Capture* capture : state().captures) {
    if (capture->context != context.number) continue;
    result = invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  return result;
}

CUresult refuse_if_captured(uint64_t event) {
  const CapturePoint* point = captured_point_of(event);
  if (point == nullptr) return CUDA_SUCCESS;
  if (!point->capture->ended) point->capture->invalidated = true;
  return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult refuse_unsafe_call() {
  if (t_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  for (Capture* capture : state().captures) {
    const bool own = pthread_equal(capture->thread, pthread_self()) != 0 &&
                     capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool elsewhere =
        capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && t_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (own || elsewhere) result = invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  return result;
}

CUresult begin_capture(uint64_t stream, const Context& context, CUstreamCaptureMode mode,
                       Graph* into, List<GraphNode*>* frontier) {
  if (stream == context.default_stream) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (point_of(stream) != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto* capture = make<Capture>();
  if (capture == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  capture->id = ++state().last_capture;
  capture->into_existing = into != nullptr;
  capture->graph = into != nullptr ? into : new_graph(true);
  capture->mode = mode;
  capture->origin = stream;
  capture->thread = pthread_self();
  capture->context = context.number;
  const bool good = capture->graph != nullptr && state().captures.add(capture) &&
                    take_part(*capture, stream, *frontier) == CUDA_SUCCESS;
  if (good) {
    g_open = state().captures.count();
    capture->graph->capturing = true;
    return CUDA_SUCCESS;
  }
  drop_graph(*capture);
  close(capture);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult end_capture(uint64_t stream, CUgraph* graph) {
  CapturePoint* point = point_of(stream);
  // Who captured into a graph of theirs has it already.
  const bool has_graph = point != nullptr && point->capture->into_existing;
  if (graph == nullptr && !has_graph) return CUDA_ERROR_INVALID_VALUE;
  if (point == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  Capture* capture = point->capture;
  if (capture->origin != stream) {
    return invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      pthread_equal(capture->thread, pthread_self()) == 0) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  CUresult result = capture->invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
  merge(&capture->waived, point->frontier);
  for (const uint64_t number : capture->streams) {
    const CapturePoint* other = point_of(number);
    if (result != CUDA_SUCCESS || other == nullptr || other->capture != capture) continue;
    if (!reaches(capture->waived, other->frontier, *capture->graph)) {
      result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    }
  }
  if (result == CUDA_SUCCESS && !reaches(capture->waived, capture->left, *capture->graph)) {
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  if (result == CUDA_SUCCESS) {
    if (graph != nullptr) *graph = handle_of(capture->graph);
    capture->graph->capturing = false;
    capture->graph = nullptr;
  } else {
    capture->graph->capturing = false;
    drop_graph(*capture);
  }
  close(capture);
  return result;
}

void abandon_capture(uint64_t stream) {
  CapturePoint* point = point_of(stream);
  if (point == nullptr) return;
  Capture* capture = point->capture;
  if (capture->origin != stream) {
    if (!merge(&capture->left, point->frontier)) capture->invalidated = true;
    return leave(stream);
  }
  capture->graph->capturing = false;
  drop_graph(*capture);
  close(capture);
}

void forget_captures_of(uint64_t context) {
  for (size_t i = 0; i < state().captures.count();) {
    Capture* capture = state().captures[i];
    if (capture->context == context) {
      abandon_capture(capture->origin);
    } else {
      ++i;
    }
  }
}

CUresult is_capturing(uint64_t stream, const Context& context, CUstreamCaptureStatus* status) {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (stream == context.default_stream) return default_stream_rests(context, false);
  const CapturePoint* point = point_of(stream);
  if (point == nullptr) return CUDA_SUCCESS;
  *status = point->capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                        : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

bool merge(List<GraphNode*>* frontier, const List<GraphNode*>& more) {
  for (GraphNode* node : more) {
    if (!frontier->contains(node) && !frontier->add(node)) return false;
  }
  return true;
}

CUstreamCaptureMode exchange_capture_mode(CUstreamCaptureMode mode) {
  const CUstreamCaptureMode before = t_mode;
  t_mode = mode;
  return before;
}

}  // namespace lambent::forward_client
