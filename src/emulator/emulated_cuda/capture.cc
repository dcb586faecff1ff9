#include "emulator/emulated_cuda/capture.h"

#include <algorithm>
#include <utility>

#include "emulator/emulated_cuda/events.h"
#include "emulator/emulated_cuda/process.h"

namespace lambent::emulated_cuda {

namespace {

thread_local CUstreamCaptureMode g_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUresult invalidate(Capture& capture, CUresult reason) {
  capture.invalidated = true;
  return reason;
}

// Captures that are under way, and forgets those that have ended.
std::vector<std::shared_ptr<Capture>> open_captures(Process& process)
    REQUIRES(process.graphs.mutex) {
  std::vector<std::shared_ptr<Capture>> open;
  for (const auto& weak : process.captures) {
    if (auto capture = weak.lock(); capture && !capture->ended) open.push_back(capture);
  }
  return open;
}

void count_captures(Process& process) REQUIRES(process.graphs.mutex) {
  std::erase_if(process.captures, [](const auto& weak) {
    auto capture = weak.lock();
    return !capture || capture->ended;
  });
  process.open_captures.store(static_cast<int>(process.captures.size()));
}

// The legacy stream is out of use while a blocking stream of its context captures.
CUresult legacy_conflict(Process& process, const Context& context, bool invalidates)
    REQUIRES(process.graphs.mutex) {
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : open_captures(process)) {
    if (capture->context != &context || !capture->blocks_legacy) continue;
    if (invalidates) capture->invalidated = true;
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return result;
}

void take_part(Capture& capture, const std::shared_ptr<Stream>& stream) {
  capture.streams.push_back(stream);
  if (!(stream->flags & CU_STREAM_NON_BLOCKING)) capture.blocks_legacy = true;
}

CUresult add_node(Process& process, const std::shared_ptr<Context>& context, CapturePoint& point,
                  NodeWork work, GraphNode** out) REQUIRES(process.graphs.mutex) {
  Capture& capture = *point.capture;
  if (capture.invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  GraphNode kind{};
  kind.work = std::move(work);
  if (!capture.graph->accepts(kind.type())) {
    return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  work = std::move(kind.work);
  GraphNode* node =
      capture.graph->add(process.graphs.next_id++, std::move(work), context, point.frontier);
  point.frontier = {{node, {}}};
  if (out) *out = node;
  return CUDA_SUCCESS;
}

// An event in a capture is a point of it; from outside, only an external node may speak of it.
CUresult record_in_capture(CapturePoint& point, Event& event) {
  if (point.capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  event.record_captured(
      std::make_shared<CapturePoint>(CapturePoint{point.capture, point.frontier, {}, {}}));
  return CUDA_SUCCESS;
}

CUresult wait_in_capture(CapturePoint& point, Event& event) {
  Capture& capture = *point.capture;
  if (capture.invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  auto recorded = event.captured();
  if (!recorded) {
    if (!was_recorded(event)) return CUDA_SUCCESS;  // never recorded: nothing to wait for
    return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  }
  if (recorded->capture != point.capture) {
    if (!recorded->capture->ended) recorded->capture->invalidated = true;
    return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  merge_edges(&point.frontier, recorded->frontier);
  return CUDA_SUCCESS;
}

// Memory that this graph allocates is freed by a node; any other keeps its owner.
CUresult free_in_capture(Process& process, const std::shared_ptr<Context>& context,
                         CapturePoint& point, CUdeviceptr address) REQUIRES(process.graphs.mutex) {
  if (point.capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (CUresult result = process.graph_memory.add_free_node(address, point.capture->graph->id())) {
    return invalidate(*point.capture, result);
  }
  return add_node(process, context, point, Operation(GraphFree{address, nullptr}), nullptr);
}

}  // namespace

void merge_edges(std::vector<Edge>* frontier, const std::vector<Edge>& more) {
  for (const Edge& edge : more) {
    bool known = std::any_of(frontier->begin(), frontier->end(),
                             [&](const Edge& own) { return own.node == edge.node; });
    if (!known) frontier->push_back(edge);
  }
}

CUresult capture_node(Process& process, const std::shared_ptr<Context>& context, Stream& stream,
                      NodeWork work, GraphNode** node) {
  const MutexLock lock(process.graphs.mutex);
  if (!stream.captured) return CUDA_ERROR_ILLEGAL_STATE;
  return add_node(process, context, *stream.captured, std::move(work), node);
}

CUresult capture_operation(Process& process, const std::shared_ptr<Context>& context,
                           const std::shared_ptr<Stream>& stream, Operation operation) {
  const MutexLock lock(process.graphs.mutex);
  if (!stream->captured) return CUDA_ERROR_ILLEGAL_STATE;
  CapturePoint& point = *stream->captured;
  if (auto* record = std::get_if<EventRecord>(&operation); record && !record->external) {
    return record_in_capture(point, *record->event);
  }
  if (auto* wait = std::get_if<EventWait>(&operation); wait && !wait->external) {
    return wait_in_capture(point, *wait->event);
  }
  if (auto* free = std::get_if<MemoryFree>(&operation)) {
    return free_in_capture(process, context, point, free->address);
  }
  if (auto* launch = std::get_if<KernelLaunch>(&operation)) launch->ready_ns = 0;
  bool node = std::holds_alternative<KernelLaunch>(operation) ||
              std::holds_alternative<Copy>(operation) || std::holds_alternative<Fill>(operation) ||
              std::holds_alternative<HostCall>(operation) ||
              std::holds_alternative<EventRecord>(operation) ||
              std::holds_alternative<EventWait>(operation) ||
              std::holds_alternative<MemoryOperations>(operation);
  if (!node) return invalidate(*point.capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  return add_node(process, context, point, std::move(operation), nullptr);
}

CUresult capture_allocation(Process& process, const std::shared_ptr<Context>& context,
                            Stream& stream, int device, size_t bytes, CUdeviceptr* address) {
  if (!address || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  GraphAllocation allocation{};
  MutexLock lock(process.graphs.mutex);
  if (!stream.captured) return CUDA_ERROR_ILLEGAL_STATE;
  if (stream.captured->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (CUresult result = process.graph_memory.reserve(*context, device, bytes,
                                                     stream.captured->capture->graph->id(),
                                                     &allocation.address, &allocation.hold)) {
    return result;
  }
  lock.unlock();
  allocation.bytes = bytes;
  allocation.properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  allocation.properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, process.ordinal_of(device)};
  CUdeviceptr made = allocation.address;
  CUresult result =
      capture_node(process, context, stream, Operation(std::move(allocation)), nullptr);
  if (result == CUDA_SUCCESS) *address = made;
  return result;
}

CUresult join_capture(Process& process, const std::shared_ptr<Stream>& stream, Event& event) {
  const MutexLock lock(process.graphs.mutex);
  auto point = event.captured();
  if (!point) return CUDA_SUCCESS;  // recorded again meanwhile
  Capture& capture = *point->capture;
  if (capture.ended) return CUDA_ERROR_CAPTURED_EVENT;
  if (capture.invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream->context != capture.context && stream->is_legacy()) {
    return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  }
  if (stream->is_legacy()) return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  stream->captured =
      std::make_shared<CapturePoint>(CapturePoint{point->capture, point->frontier, {}, {}});
  stream->capturing.store(true, std::memory_order_release);
  take_part(capture, stream);
  return CUDA_SUCCESS;
}

CUresult refuse_if_capturing(Process& process, const Context& context, const Stream& stream) {
  if (process.open_captures.load(std::memory_order_relaxed) == 0) return CUDA_SUCCESS;
  const MutexLock lock(process.graphs.mutex);
  if (stream.is_legacy()) return legacy_conflict(process, context, true);
  if (!stream.captured) return CUDA_SUCCESS;
  Capture& capture = *stream.captured->capture;
  if (capture.invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

CUresult refuse_if_context_captures(Process& process, const Context& context) {
  if (process.open_captures.load(std::memory_order_relaxed) == 0) return CUDA_SUCCESS;
  const MutexLock lock(process.graphs.mutex);
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : open_captures(process)) {
    if (capture->context != &context) continue;
    result = invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  return result;
}

CUresult refuse_if_captured(Process& process, const Event& event) {
  if (!event.is_captured()) return CUDA_SUCCESS;
  const MutexLock lock(process.graphs.mutex);
  auto point = event.captured();
  if (!point) return CUDA_SUCCESS;
  if (!point->capture->ended) point->capture->invalidated = true;
  return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult refuse_unsafe_call(Process& process) {
  if (process.open_captures.load(std::memory_order_relaxed) == 0) return CUDA_SUCCESS;
  if (g_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  const MutexLock lock(process.graphs.mutex);
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : open_captures(process)) {
    bool own = capture->thread == std::this_thread::get_id() &&
               capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    bool elsewhere =
        capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && g_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (own || elsewhere) result = invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  return result;
}

CUresult begin_capture(Process& process, const std::shared_ptr<Context>& context,
                       const std::shared_ptr<Stream>& stream, CUstreamCaptureMode mode,
                       std::shared_ptr<Graph> graph, std::vector<Edge> frontier) {
  const MutexLock lock(process.graphs.mutex);
  if (stream->is_legacy()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->captured) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->id = process.next_id++;
  capture->into_existing = graph != nullptr;
  capture->graph =
      graph ? std::move(graph) : std::make_shared<Graph>(&process.graphs, process.graphs.next_id++);
  capture->graph->capturing = true;
  capture->mode = mode;
  capture->origin = stream.get();
  capture->thread = std::this_thread::get_id();
  capture->context = context.get();
  take_part(*capture, stream);
  stream->captured =
      std::make_shared<CapturePoint>(CapturePoint{capture, std::move(frontier), {}, {}});
  stream->capturing.store(true, std::memory_order_release);
  process.captures.push_back(capture);
  count_captures(process);
  return CUDA_SUCCESS;
}

CUresult end_capture(Process& process, const std::shared_ptr<Stream>& stream, CUgraph* graph) {
  const MutexLock lock(process.graphs.mutex);
  // Who captured into a graph of theirs has it already.
  const bool has_graph = stream->captured && stream->captured->capture->into_existing;
  if (!graph && !has_graph) return CUDA_ERROR_INVALID_VALUE;
  if (!stream->captured) return CUDA_ERROR_ILLEGAL_STATE;
  std::shared_ptr<CapturePoint> point = stream->captured;
  std::shared_ptr<Capture> capture = point->capture;
  if (capture->origin != stream.get()) {
    return invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  CUresult result = capture->invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
  std::vector<Edge> joined_ends = point->frontier;
  merge_edges(&joined_ends, capture->waived);
  if (result == CUDA_SUCCESS && !Graph::reaches(joined_ends, capture->left)) {
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  for (const auto& weak : capture->streams) {
    auto other = weak.lock();
    if (!other || !other->captured || other->captured->capture != capture) continue;
    bool joined = other == stream || Graph::reaches(joined_ends, other->captured->frontier);
    if (result == CUDA_SUCCESS && !joined) result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    other->capturing.store(false, std::memory_order_release);
    other->captured = nullptr;
  }
  capture->ended = true;
  capture->graph->capturing = false;
  count_captures(process);
  if (result == CUDA_SUCCESS) {
    if (graph) *graph = capture->graph->handle();
    if (!capture->into_existing) process.graphs.owned[capture->graph.get()] = capture->graph;
  }
  // What the capture made is dropped unless the program gets it.
  capture->graph = nullptr;
  return result;
}

void abandon_capture(Process& process, const std::shared_ptr<Stream>& stream) {
  const MutexLock lock(process.graphs.mutex);
  if (!stream->captured) return;
  std::shared_ptr<Capture> capture = stream->captured->capture;
  if (capture->origin != stream.get()) merge_edges(&capture->left, stream->captured->frontier);
  stream->capturing.store(false, std::memory_order_release);
  stream->captured = nullptr;
  if (capture->origin != stream.get()) return;
  capture->invalidated = true;
  for (const auto& weak : capture->streams) {
    auto other = weak.lock();
    if (!other || !other->captured || other->captured->capture != capture) continue;
    other->capturing.store(false, std::memory_order_release);
    other->captured = nullptr;
  }
  capture->ended = true;
  capture->graph->capturing = false;
  capture->graph = nullptr;
  count_captures(process);
}

CUstreamCaptureMode exchange_capture_mode(CUstreamCaptureMode mode) {
  return std::exchange(g_mode, mode);
}

}  // namespace lambent::emulated_cuda
