// ServedProcess: graphs. A program's graphs are its own; what comes here is one that it wants to
// run, as an image, which becomes a graph of the driver's that a single call launches.
#include <algorithm>
#include <cstring>
#include <utility>

#include "gpu/forward_server/served_process.h"

namespace lambent::forward_server {
namespace {

using forward_ring::GraphNodeKind;
using forward_ring::kNoGraphNode;

constexpr size_t kMostImageBytes = size_t{64} << 20;
constexpr size_t kMostHeld = size_t{1} << 16;  // functions that were queued and have not run
constexpr uint64_t kFlags =
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

}  // namespace

CUresult ServedProcess::check_node(const forward_ring::GraphNodeView& view, uint64_t context,
                                   GraphNode* node) {
  node->head = view.head;
  for (uint32_t i = 0; i < view.head.dependencies; ++i) {
    node->dependencies.push_back(view.dependency(i));
  }
  const auto& a = view.head.arguments;
  switch (view.head.kind) {
    case GraphNodeKind::kEmpty:
      return CUDA_SUCCESS;
    case GraphNodeKind::kKernel: {
      const Function* function = functions_.find(a[0]);
      if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
      const Module* module = modules_.find(function->module);
      if (module == nullptr || module->context != context) return CUDA_ERROR_INVALID_CONTEXT;
      if (view.head.data_bytes != function->parameter_bytes) return CUDA_ERROR_INVALID_VALUE;
      node->function = function->function;
      node->module = function->module;
      node->places = function->parameters;
      node->parameters.assign(view.data, view.data + view.head.data_bytes);
      for (size_t at = 0; at + sizeof(CUdeviceptr) <= view.head.data_bytes;
           at += sizeof(CUdeviceptr)) {
        CUdeviceptr word = 0;
        std::memcpy(&word, view.data + at, sizeof(word));
        if (word != 0 && ranges_.contains(word, 1)) node->pointers.push_back(word);
      }
      return CUDA_SUCCESS;
    }
    case GraphNodeKind::kCopy:
      if (a[4] == 0 || a[5] == 0) return CUDA_ERROR_INVALID_VALUE;
      return ranges_.contains_rows(a[0], a[1], a[4], a[5]) &&
                     ranges_.contains_rows(a[2], a[3], a[4], a[5])
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_INVALID_VALUE;
    case GraphNodeKind::kFill: {
      uint64_t row = 0;
      if (a[3] != 1 && a[3] != 2 && a[3] != 4) return CUDA_ERROR_INVALID_VALUE;
      if (a[4] == 0 || a[5] == 0 || a[0] % a[3] != 0) return CUDA_ERROR_INVALID_VALUE;
      if (__builtin_mul_overflow(a[4], a[3], &row)) return CUDA_ERROR_INVALID_VALUE;
      return ranges_.contains_rows(a[0], a[1], row, a[5]) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    case GraphNodeKind::kHost:
      return (a[0] & forward_ring::kGraphToken) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case GraphNodeKind::kRecordEvent:
    case GraphNodeKind::kWaitEvent: {
      Event* event = events_.find(a[0]);
      if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
      node->event = event->event;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult ServedProcess::read_graph(const std::string& image, uint64_t context,
                                   std::vector<GraphNode>* nodes, uint64_t* wrong) {
  if (image.size() > kMostImageBytes) return CUDA_ERROR_OUT_OF_MEMORY;
  forward_ring::GraphReader reader(image.data(), image.size());
  forward_ring::GraphNodeView view;
  for (;;) {
    const auto next = reader.next(&view);
    if (next == forward_ring::GraphReader::Next::kEnd) return CUDA_SUCCESS;
    if (next == forward_ring::GraphReader::Next::kMalformed) return CUDA_ERROR_INVALID_VALUE;
    nodes->emplace_back();
    if (const CUresult result = check_node(view, context, &nodes->back())) {
      *wrong = nodes->size() - 1;
      return result;
    }
  }
}

CUresult ServedProcess::take_host_places(const std::vector<GraphNode>& nodes,
                                         std::vector<ExecutableGraph::HostPlace>* places) {
  for (const GraphNode& node : nodes) {
    if (node.head.kind != GraphNodeKind::kHost) continue;
    ExecutableGraph::HostPlace place;
    if (const CUresult result = make_event(driver_, CU_EVENT_DISABLE_TIMING, &place.due)) {
      return result;
    }
    if (const CUresult result = take_gate(&place.gate)) return result;
    place.address = gates_[place.gate].address;
    places->push_back(std::move(place));
  }
  return CUDA_SUCCESS;
}

void ServedProcess::instantiate_graph(const Call& call) {
  const std::string image = std::exchange(image_, {});
  const uint64_t context = call.arguments[0], flags = call.arguments[1];
  auto graph = std::make_shared<ExecutableGraph>(driver_, context, Bytes(image.size()));
  std::vector<GraphNode> nodes;
  std::vector<ExecutableGraph::HostPlace> places;
  uint64_t wrong = kNoGraphNode, number = 0;
  CUresult result = CUDA_SUCCESS;
  if (driver_->graph_instantiate == nullptr || driver_->graph_add_kernel_node == nullptr ||
      driver_->graph_add_batch_mem_op_node == nullptr || driver_->graph_exec_update == nullptr) {
    result = CUDA_ERROR_NOT_SUPPORTED;
  } else if (contexts_.count(context) == 0) {
    result = CUDA_ERROR_INVALID_CONTEXT;
  } else if ((flags & ~kFlags) != 0) {
    result = CUDA_ERROR_INVALID_VALUE;
  } else {
    result = read_graph(image, context, &nodes, &wrong);
  }
  if (result == CUDA_SUCCESS) result = hold(*graph, nodes);
  if (result == CUDA_SUCCESS) result = take_host_places(nodes, &places);
  if (result == CUDA_SUCCESS) {
    graph->checked_at = ranges_.erasures();
    result = graph->make(std::move(nodes), std::move(places), flags, &wrong);
    places.clear();
  }
  if (result == CUDA_SUCCESS) {
    number = graphs_.add(graph);
  } else {
    for (const auto& place : places) free_gates_.push_back(place.gate);
    release_graph(*graph);
  }
  answer(call, result, {number, wrong});
}

// Against the client's quotas, until it is released.
CUresult ServedProcess::hold(ExecutableGraph& graph, const std::vector<GraphNode>& nodes) {
  ClientQuotas& quotas = memory_->quotas;
  graph.is_held = quotas.graphs.take();
  if (!graph.is_held) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!quotas.graph_nodes.take(nodes.size())) return CUDA_ERROR_OUT_OF_MEMORY;
  graph.held_nodes = nodes.size();
  // Where it waits for what is due.
  const bool has_host_nodes = std::any_of(nodes.begin(), nodes.end(), [](const GraphNode& node) {
    return node.head.kind == GraphNodeKind::kHost;
  });
  if (!has_host_nodes) return CUDA_SUCCESS;
  graph.has_stream = quotas.streams.take();
  return graph.has_stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

ExecutableGraph* ServedProcess::find_graph(uint64_t number) {
  auto* found = graphs_.find(number);
  return found == nullptr ? nullptr : found->get();
}

void ServedProcess::release_graph(ExecutableGraph& graph) {
  ClientQuotas& quotas = memory_->quotas;
  if (std::exchange(graph.is_held, false)) quotas.graphs.give_back();
  if (std::exchange(graph.has_stream, false)) quotas.streams.give_back();
  quotas.graph_nodes.give_back(std::exchange(graph.held_nodes, 0));
  for (const auto& place : graph.host_places()) free_gates_.push_back(place.gate);
  memory_->give_back_upload(std::exchange(graph.counted, {}));
  graph.release();
}

void ServedProcess::release_graphs_if(const std::function<bool(const ExecutableGraph&)>& is_one) {
  graphs_.for_each([&](uint64_t number, std::shared_ptr<ExecutableGraph>& graph) {
    if (!is_one(*graph)) return;
    release_graph(*graph);
    graphs_.erase(number);
  });
}

void ServedProcess::update_graph(const Call& call) {
  const std::string image = std::exchange(image_, {});
  const Bytes counted(image.size());
  uint64_t wrong = kNoGraphNode;
  auto how = CU_GRAPH_EXEC_UPDATE_ERROR;
  ExecutableGraph* graph = find_graph(call.arguments[0]);
  CUresult result = graph == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
  std::vector<GraphNode> nodes;
  if (result == CUDA_SUCCESS) result = read_graph(image, graph->context(), &nodes, &wrong);
  const uint64_t erasures = ranges_.erasures();
  if (result == CUDA_SUCCESS) result = graph->update(std::move(nodes), &how, &wrong);
  if (result == CUDA_SUCCESS) {
    graph->checked_at = erasures;
    memory_->give_back_upload(std::exchange(graph->counted, counted));
  } else {
    memory_->give_back_upload(counted);
  }
  answer(call, result, {static_cast<uint64_t>(how), wrong});
}

void ServedProcess::set_graph_node(const Call& call) {
  ExecutableGraph* graph = find_graph(call.arguments[0]);
  if (graph == nullptr) return answer(call, CUDA_ERROR_INVALID_HANDLE);
  const uint64_t index = call.arguments[1];
  if (index >= graph->nodes().size()) return answer(call, CUDA_ERROR_INVALID_VALUE);
  forward_ring::GraphReader reader(data(), data_bytes(call));
  forward_ring::GraphNodeView view;
  if (reader.next(&view) != forward_ring::GraphReader::Next::kNode) {
    return answer(call, CUDA_ERROR_INVALID_VALUE);
  }
  GraphNode node;
  CUresult result = check_node(view, graph->context(), &node);
  // Another function may have more parameters, or fewer.
  const Bytes before(graph->nodes()[index].parameters.size()), after(node.parameters.size());
  if (result == CUDA_SUCCESS && !memory_->take_upload(after)) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (result != CUDA_SUCCESS) return answer(call, result);
  result = graph->set_node(static_cast<uint32_t>(index), std::move(node));
  memory_->give_back_upload(result == CUDA_SUCCESS ? before : after);
  if (result == CUDA_SUCCESS) graph->counted = graph->counted + after - before;
  answer(call, result);
}

void ServedProcess::enable_graph_node(const Call& call) {
  ExecutableGraph* graph = find_graph(call.arguments[0]);
  if (graph == nullptr) return answer(call, CUDA_ERROR_INVALID_HANDLE);
  const uint64_t index = call.arguments[1];
  if (index >= graph->nodes().size()) return answer(call, CUDA_ERROR_INVALID_VALUE);
  const bool enabled = call.arguments[2] != 0;
  // While it was disabled its memory was not looked at.
  if (enabled) graph->checked_at = ExecutableGraph::kUnchecked;
  answer(call, graph->enable_node(static_cast<uint32_t>(index), enabled));
}

CUresult ServedProcess::upload_graph(const Call& call) {
  ExecutableGraph* graph = find_graph(call.arguments[0]);
  if (graph == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CUstream stream = nullptr;
  if (const CUresult result = streams_.use(call.arguments[1], &stream)) return result;
  return graph->upload(stream);
}

// What it copies and fills, and what its kernels were told of, was the client's when it was made;
// it may have been freed since, and be another's.
bool ServedProcess::owns_memory_of(const ExecutableGraph& graph) const {
  const auto& all = graph.nodes();
  return std::all_of(all.begin(), all.end(), [this](const GraphNode& node) {
    const auto& a = node.head.arguments;
    if (!node.is_enabled) return true;
    if (node.head.kind == GraphNodeKind::kCopy) {
      return ranges_.contains_rows(a[0], a[1], a[4], a[5]) &&
             ranges_.contains_rows(a[2], a[3], a[4], a[5]);
    }
    if (node.head.kind == GraphNodeKind::kFill) {
      return ranges_.contains_rows(a[0], a[1], a[4] * a[3], a[5]);
    }
    return std::all_of(node.pointers.begin(), node.pointers.end(),
                       [this](CUdeviceptr word) { return ranges_.contains(word, 1); });
  });
}

CUresult ServedProcess::launch_graph(const Call& call) {
  ++launched_;
  ExecutableGraph* graph = find_graph(call.arguments[0]);
  if (graph == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const uint64_t before = last_ticket_;
  const CUresult result = queue_graph(call, graph);
  if (result == CUDA_SUCCESS) return result;
  // The process counts on every function of it: those without a ticket will not be due.
  const auto& places = graph->host_places();
  const size_t with_ticket = last_ticket_ - before;
  for (size_t i = with_ticket; i < places.size(); ++i) {
    if (held_.size() >= 2 * kMostHeld) break;
    const uint64_t ticket = ++last_ticket_;
    held_[ticket] = {.token = graph->nodes()[places[i].node].head.arguments[0], .is_refused = true};
    host_function_is_due(ticket);
  }
  return result;
}

CUresult ServedProcess::queue_graph(const Call& call, ExecutableGraph* graph) {
  if (graph->checked_at != ranges_.erasures()) {
    if (!owns_memory_of(*graph)) return CUDA_ERROR_INVALID_VALUE;
    graph->checked_at = ranges_.erasures();
  }
  if (held_.size() + graph->host_places().size() > kMostHeld) return CUDA_ERROR_OUT_OF_MEMORY;
  CUstream stream = nullptr;
  if (const CUresult result = streams_.use(call.arguments[1], &stream)) return result;
  for (const auto& place : graph->host_places()) {
    const MutexLock lock(gates_mutex_);
    ++gates_[place.gate].turn;
  }
  if (streams_.has_share(call.arguments[1])) {
    return graph->launch_one_by_one(stream, [&](const ExecutableGraph::HostPlace& place) {
      const uint32_t turn = gates_[place.gate].turn;
      tell_when_due(stream, *graph, place);
      return driver_->stream_wait_value_32(stream, place.address, turn, CU_STREAM_WAIT_VALUE_GEQ);
    });
  }
  for (const auto& place : graph->host_places()) {
    if (const CUresult result = graph->set_turn(place, gates_[place.gate].turn)) return result;
  }
  if (const CUresult result = graph->launch(stream)) return result;
  return hold_for_functions(*graph);
}

// Once the stream has come so far.
void ServedProcess::tell_when_due(CUstream stream, const ExecutableGraph& graph,
                                  const ExecutableGraph::HostPlace& place) {
  const uint64_t ticket = ++last_ticket_;
  held_[ticket] = {place.gate, gates_[place.gate].turn, graph.nodes()[place.node].head.arguments[0],
                   false, true};
  completions_->when_done(stream, [this, ticket](CUresult done) {
    if (done == CUDA_SUCCESS) host_function_is_due(ticket);
  });
}

// Its launches follow each other, so what is due becomes so in the order of the nodes.
CUresult ServedProcess::hold_for_functions(ExecutableGraph& graph) {
  for (const auto& place : graph.host_places()) {
    CUstream notifier = nullptr;
    CUresult result = graph.notifier(&notifier);
    if (result == CUDA_SUCCESS) {
      result = driver_->stream_wait_event(notifier, place.due.get(), 0);
    }
    if (result != CUDA_SUCCESS) return result;
    tell_when_due(notifier, graph, place);
  }
  return CUDA_SUCCESS;
}

// Its launches that are under way go on.
CUresult ServedProcess::destroy_graph(const Call& call) {
  auto* found = graphs_.find(call.arguments[0]);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  destroyed_graphs_.push_back(std::move(*found));
  graphs_.erase(call.arguments[0]);
  release_destroyed_graphs();
  return CUDA_SUCCESS;
}

// One wait for many: those that come meanwhile have the next.
void ServedProcess::release_destroyed_graphs() {
  if (destroyed_graphs_.empty() || !graphs_to_end_.empty()) return;
  graphs_to_end_.swap(destroyed_graphs_);
  completions_->when_all_done(streams_.all(), [this](CUresult) {
    for (const auto& graph : std::exchange(graphs_to_end_, {})) release_graph(*graph);
    release_destroyed_graphs();
  });
}

}  // namespace lambent::forward_server
