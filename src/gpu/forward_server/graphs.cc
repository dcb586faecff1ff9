#include "gpu/forward_server/graphs.h"

#include <algorithm>
#include <string>
#include <utility>

namespace lambent::forward_server {
namespace {

using forward_ring::CallCode;
using forward_ring::GraphNodeKind;
using forward_ring::kNoGraphNode;

constexpr uint64_t kFlags =
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

}  // namespace

bool Graphs::handle(const Call& call, std::span<const char> data) {
  switch (static_cast<CallCode>(call.code)) {
    case CallCode::kLaunchGraph:
      answers_.note(launch(call));
      return true;
    case CallCode::kInstantiateGraph:
      instantiate(call);
      return true;
    case CallCode::kUpdateGraph:
      update(call);
      return true;
    case CallCode::kSetGraphNode:
      set_node(call, data);
      return true;
    case CallCode::kEnableGraphNode:
      enable_node(call);
      return true;
    case CallCode::kUploadGraph:
      answers_.note(upload(call));
      return true;
    case CallCode::kDestroyGraph:
      answers_.note(destroy(call.arguments[0]));
      return true;
    default:
      return false;
  }
}

ExecutableGraph* Graphs::find(uint64_t number) {
  auto* found = table_.find(number);
  return found == nullptr ? nullptr : found->get();
}

void Graphs::instantiate(const Call& call) {
  const std::string image = upload_.take();
  const uint64_t context = call.arguments[0], flags = call.arguments[1];
  auto graph = std::make_shared<ExecutableGraph>(driver_, context, Bytes(image.size()));
  uint64_t wrong = kNoGraphNode, number = 0;
  CUresult result = CUDA_SUCCESS;
  if (driver_->graph_instantiate == nullptr || driver_->graph_add_kernel_node == nullptr ||
      driver_->graph_add_batch_mem_op_node == nullptr || driver_->graph_exec_update == nullptr) {
    result = CUDA_ERROR_NOT_SUPPORTED;
  } else if (!streams_.has_context(context)) {
    result = CUDA_ERROR_INVALID_CONTEXT;
  } else if ((flags & ~kFlags) != 0) {
    result = CUDA_ERROR_INVALID_VALUE;
  } else {
    result = make(image, *graph, flags, &wrong);
  }
  if (result == CUDA_SUCCESS) {
    number = table_.add(graph);
  } else {
    release(*graph);
  }
  answers_.answer(call, result, {number, wrong});
}

CUresult Graphs::make(const std::string& image, ExecutableGraph& graph, uint64_t flags,
                      uint64_t* wrong) {
  std::vector<GraphNode> nodes;
  CUresult result = checker_.read(image, graph.context(), &nodes, wrong);
  if (result == CUDA_SUCCESS) result = take_quotas(graph, nodes);
  if (result != CUDA_SUCCESS) return result;
  std::vector<ExecutableGraph::HostPlace> places;
  result = take_host_places(nodes, &places);
  if (result != CUDA_SUCCESS) {
    for (const auto& place : places) gates_.give_back(place.gate);
    return result;
  }
  checker_.note_checked(graph);
  return graph.make(std::move(nodes), std::move(places), flags, wrong);
}

// Against the client's quotas, until it is released.
CUresult Graphs::take_quotas(ExecutableGraph& graph, const std::vector<GraphNode>& nodes) {
  ClientQuotas& quotas = memory_.quotas;
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

CUresult Graphs::take_host_places(const std::vector<GraphNode>& nodes,
                                  std::vector<ExecutableGraph::HostPlace>* places) {
  for (const GraphNode& node : nodes) {
    if (node.head.kind != GraphNodeKind::kHost) continue;
    ExecutableGraph::HostPlace place;
    if (const CUresult result = make_event(driver_, CU_EVENT_DISABLE_TIMING, &place.due)) {
      return result;
    }
    if (const CUresult result = gates_.take(&place.gate)) return result;
    place.address = gates_.address(place.gate);
    places->push_back(std::move(place));
  }
  return CUDA_SUCCESS;
}

void Graphs::release(ExecutableGraph& graph) {
  ClientQuotas& quotas = memory_.quotas;
  if (std::exchange(graph.is_held, false)) quotas.graphs.give_back();
  if (std::exchange(graph.has_stream, false)) quotas.streams.give_back();
  quotas.graph_nodes.give_back(std::exchange(graph.held_nodes, 0));
  for (const auto& place : graph.host_places()) gates_.give_back(place.gate);
  memory_.give_back_upload(std::exchange(graph.counted, {}));
  graph.release();
}

void Graphs::release_all_of_context(uint64_t context) {
  release_if([&](const ExecutableGraph& graph) { return graph.context() == context; });
}

void Graphs::release_all_of_module(uint64_t module) {
  release_if([&](const ExecutableGraph& graph) { return graph.uses_module(module); });
}

template <typename IsOne>
void Graphs::release_if(IsOne is_one) {
  table_.for_each([&](uint64_t number, std::shared_ptr<ExecutableGraph>& graph) {
    if (!is_one(*graph)) return;
    release(*graph);
    table_.erase(number);
  });
}

void Graphs::update(const Call& call) {
  const std::string image = upload_.take();
  const Bytes counted(image.size());
  uint64_t wrong = kNoGraphNode;
  auto how = CU_GRAPH_EXEC_UPDATE_ERROR;
  ExecutableGraph* graph = find(call.arguments[0]);
  CUresult result = graph == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
  std::vector<GraphNode> nodes;
  if (result == CUDA_SUCCESS) result = checker_.read(image, graph->context(), &nodes, &wrong);
  if (result == CUDA_SUCCESS) result = graph->update(std::move(nodes), &how, &wrong);
  if (result == CUDA_SUCCESS) {
    checker_.note_checked(*graph);
    memory_.give_back_upload(std::exchange(graph->counted, counted));
  } else {
    memory_.give_back_upload(counted);
  }
  answers_.answer(call, result, {static_cast<uint64_t>(how), wrong});
}

void Graphs::set_node(const Call& call, std::span<const char> data) {
  ExecutableGraph* graph = find(call.arguments[0]);
  if (graph == nullptr) return answers_.answer(call, CUDA_ERROR_INVALID_HANDLE);
  const uint64_t index = call.arguments[1];
  if (index >= graph->nodes().size()) return answers_.answer(call, CUDA_ERROR_INVALID_VALUE);
  forward_ring::GraphReader reader(data.data(), data.size());
  forward_ring::GraphNodeView view;
  if (reader.next(&view) != forward_ring::GraphReader::Next::kNode) {
    return answers_.answer(call, CUDA_ERROR_INVALID_VALUE);
  }
  GraphNode node;
  CUresult result = checker_.read_node(view, graph->context(), &node);
  // Another function may have more parameters, or fewer.
  const Bytes before(graph->nodes()[index].parameters.size()), after(node.parameters.size());
  if (result == CUDA_SUCCESS && !memory_.take_upload(after)) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (result != CUDA_SUCCESS) return answers_.answer(call, result);
  result = graph->set_node(static_cast<uint32_t>(index), std::move(node));
  memory_.give_back_upload(result == CUDA_SUCCESS ? before : after);
  if (result == CUDA_SUCCESS) graph->counted = graph->counted + after - before;
  answers_.answer(call, result);
}

void Graphs::enable_node(const Call& call) {
  ExecutableGraph* graph = find(call.arguments[0]);
  if (graph == nullptr) return answers_.answer(call, CUDA_ERROR_INVALID_HANDLE);
  const uint64_t index = call.arguments[1];
  if (index >= graph->nodes().size()) return answers_.answer(call, CUDA_ERROR_INVALID_VALUE);
  const bool enabled = call.arguments[2] != 0;
  // While it was disabled its memory was not looked at.
  if (enabled) graph->checked_at = ExecutableGraph::kUnchecked;
  answers_.answer(call, graph->enable_node(static_cast<uint32_t>(index), enabled));
}

CUresult Graphs::upload(const Call& call) {
  ExecutableGraph* graph = find(call.arguments[0]);
  if (graph == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CUstream stream = nullptr;
  if (const CUresult result = streams_.use(call.arguments[1], &stream)) return result;
  return graph->upload(stream);
}

CUresult Graphs::launch(const Call& call) {
  ExecutableGraph* graph = find(call.arguments[0]);
  if (graph == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const uint64_t before = host_functions_.added_of_graphs();
  const CUresult result = queue(call, *graph);
  if (result == CUDA_SUCCESS) return result;
  // The process counts on every function of it: those that were not added will not be due.
  const auto& places = graph->host_places();
  for (size_t i = host_functions_.added_of_graphs() - before; i < places.size(); ++i) {
    const uint64_t token = graph->nodes()[places[i].node].head.arguments[0];
    if (!host_functions_.refuse_of_graph(token)) break;
  }
  return result;
}

CUresult Graphs::queue(const Call& call, ExecutableGraph& graph) {
  if (!checker_.may_launch(graph)) return CUDA_ERROR_INVALID_VALUE;
  if (!host_functions_.has_room_for(graph.host_places().size())) return CUDA_ERROR_OUT_OF_MEMORY;
  CUstream stream = nullptr;
  if (const CUresult result = streams_.use_for_memory(call.arguments[1], &stream)) return result;
  for (const auto& place : graph.host_places()) gates_.shut(place.gate);
  if (streams_.has_share(call.arguments[1])) {
    return graph.launch_one_by_one(stream, [&](const ExecutableGraph::HostPlace& place) {
      add_host_function(stream, graph, place);
      return driver_->stream_wait_value_32(stream, place.address, gates_.turn(place.gate),
                                           CU_STREAM_WAIT_VALUE_GEQ);
    });
  }
  for (const auto& place : graph.host_places()) {
    if (const CUresult result = graph.set_turn(place, gates_.turn(place.gate))) return result;
  }
  if (const CUresult result = graph.launch(stream)) return result;
  return add_host_functions(graph);
}

void Graphs::add_host_function(CUstream stream, const ExecutableGraph& graph,
                               const ExecutableGraph::HostPlace& place) {
  host_functions_.add_of_graph(stream, place.gate, graph.nodes()[place.node].head.arguments[0]);
}

// Its launches follow each other, so what is due becomes so in the order of the nodes.
CUresult Graphs::add_host_functions(ExecutableGraph& graph) {
  for (const auto& place : graph.host_places()) {
    CUstream notifier = nullptr;
    CUresult result = graph.notifier(&notifier);
    if (result == CUDA_SUCCESS) {
      result = driver_->stream_wait_event(notifier, place.due.get(), 0);
    }
    if (result != CUDA_SUCCESS) return result;
    add_host_function(notifier, graph, place);
  }
  return CUDA_SUCCESS;
}

// Its launches that are under way go on.
CUresult Graphs::destroy(uint64_t number) {
  auto* found = table_.find(number);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  destroyed_.push_back(std::move(*found));
  table_.erase(number);
  release_destroyed();
  return CUDA_SUCCESS;
}

// One wait for many: those that come meanwhile have the next.
void Graphs::release_destroyed() {
  if (destroyed_.empty() || !graphs_to_end_.empty()) return;
  graphs_to_end_.swap(destroyed_);
  completions_.when_all_done(streams_.all(), [this](CUresult) {
    for (const auto& graph : std::exchange(graphs_to_end_, {})) release(*graph);
    release_destroyed();
  });
}

}  // namespace lambent::forward_server
