#include "gpu/forward_client/drafts.h"

#include <cstdlib>
#include <new>

#include "gpu/forward_client/connection.h"
#include "gpu/forward_client/host_calls.h"
#include "gpu/forward_client/modules.h"

namespace lambent::forward_client {
namespace {

CUresult send_image(const Draft& draft, const Call& call, uint64_t* values) {
  const PlainLock lock(upload_mutex);
  const CUresult result = upload(draft.image.bytes, draft.image.size);
  return result == CUDA_SUCCESS ? ask(call, values, 2) : result;
}

// The draft's parts are the executable's from now on.
void take_over(Executable* executable, Draft* draft) {
  executable->graph = draft->graph;
  executable->by_place = draft->image.by_place;
  executable->tokens = draft->image.tokens;
  draft->graph = nullptr;
  draft->image.by_place = {};
  draft->image.tokens = {};
}

CUresult keep(Draft* draft, uint64_t number, cuuint64_t flags) {
  const StateLock lock;
  void* memory = std::calloc(1, sizeof(Executable));
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  auto* executable = new (memory) Executable{};
  executable->number = number;
  executable->context = draft->context;
  executable->flags = flags;
  take_over(executable, draft);
  if (fill_twins(*executable, nullptr) && state().executables.add(number, executable)) {
    return CUDA_SUCCESS;
  }
  free_executable(executable);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

// Its nodes are those of the draft from now on, which has the same structure.
CUresult replace(uint64_t number, Draft* draft) {
  const StateLock lock;
  Executable** found = state().executables.find(number);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;  // destroyed meanwhile
  Executable old = **found;
  Executable& executable = **found;
  executable.twins = {};
  take_over(&executable, draft);
  const bool good = fill_twins(executable, &old.twins);
  for (size_t place = 0; place < old.by_place.count(); ++place) {
    GraphNode* node = executable.by_place[place];
    if (node == nullptr || old.by_place[place] == nullptr) continue;
    node->enabled = old.by_place[place]->enabled;
    HostCall* call = state().host_calls.find(node->token);
    if (call != nullptr && call->context != 0) call->disabled = !node->enabled;
  }
  for (const uint64_t token : old.tokens) retire(token);
  old.tokens.clear();
  old.twins.clear();
  old.by_place.clear();
  free_graph(old.graph);
  return good ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace

Draft::~Draft() {
  if (graph == nullptr && image.bytes == nullptr) return;
  const StateLock lock;
  free_image(&image);
  if (graph != nullptr) free_graph(graph);
}

CUresult write(Draft* draft, GraphNode** offender) {
  if (draft->graph == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = write_image(*draft->graph, draft->context, &draft->image, offender);
  if (result != CUDA_SUCCESS) return result;
  const bool runs_here = draft->image.tokens.count() > 0;
  return !runs_here || start_host_calls() ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUgraphNode node_at(const Draft& draft, uint64_t place) {
  if (place >= draft.image.by_place.count()) return nullptr;
  const GraphNode* node = draft.image.by_place[place];
  return node == nullptr ? nullptr : reinterpret_cast<CUgraphNode>(node->original);
}

CUresult instantiate(Draft* draft, cuuint64_t flags, uint64_t* number, CUgraphNode* offender) {
  constexpr cuuint64_t kUpload = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  uint64_t values[2] = {};
  const CUresult result = send_image(
      *draft, make_call(CallCode::kInstantiateGraph, draft->context, flags & ~kUpload), values);
  if (result != CUDA_SUCCESS) {
    *offender = node_at(*draft, values[1]);
    return result;
  }
  *number = values[0];
  const CUresult kept = keep(draft, *number, flags);
  if (kept != CUDA_SUCCESS) send(make_call(CallCode::kDestroyGraph, *number));
  return kept;
}

CUresult update(uint64_t number, Draft* draft, CUgraphExecUpdateResultInfo* info) {
  uint64_t values[2] = {};
  const CUresult result = send_image(*draft, make_call(CallCode::kUpdateGraph, number), values);
  info->result = static_cast<CUgraphExecUpdateResult>(values[0]);
  if (result != CUDA_SUCCESS) {
    info->errorNode = node_at(*draft, values[1]);
    return result;
  }
  info->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  return replace(number, draft);
}

}  // namespace lambent::forward_client
