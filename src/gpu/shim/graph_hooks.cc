// CUDA graphs that allocate: their memory is the driver's, taken by a launch or an upload and kept
// for the next one. What it is, only the driver knows, and says for the device as a whole.
#include "driver_slots.h"
#include "gpu/shim/abi.h"
#include "gpu/shim/gate.h"
#include "gpu/shim/graph_memory.h"
#include "gpu/shim/graph_touches.h"
#include "gpu/shim/touches.h"

using namespace lambent::shim;

namespace {

constexpr int kReservedNow = 2;      // CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT
constexpr int kAllocationNode = 10;  // CU_GRAPH_NODE_TYPE_MEM_ALLOC

bool do_graphs_allocate = false;

template <typename Call>
Status recounted(Call call) {
  const GateScope gate_scope;
  InsideHook inside;
  const Status status = noted(call());
  if (inside.outermost()) recount_graph_memory();
  return status;
}

// The beginning of CUgraphNodeParams.
void note(Status status, const void* parameters) {
  if (status != kSuccess || parameters == nullptr) return;
  if (*static_cast<const int*>(parameters) == kAllocationNode) graphs_allocate();
}

}  // namespace

void lambent::shim::graphs_allocate() {
  __atomic_store_n(&do_graphs_allocate, true, __ATOMIC_RELAXED);
}

void lambent::shim::recount_graph_memory() {
  if (!__atomic_load_n(&do_graphs_allocate, __ATOMIC_RELAXED)) return;
  Accounting* accounting = Accounting::current();
  int devices = 0;
  if (accounting == nullptr || REAL(cuDeviceGetCount, int*)(&devices) != kSuccess) return;
  for (Device device = 0; device < devices; ++device) {
    unsigned long long bytes = 0;
    const Status status =
        REAL(cuDeviceGetGraphMemAttribute, Device, int, void*)(device, kReservedNow, &bytes);
    if (status == kSuccess) accounting->graph_memory_is(device, bytes);
  }
}

SHIM_EXPORT Status cuGraphLaunch(Handle graph, Handle stream) {
  const GateScope gate_scope;
  if (notes_touches()) touch_graph(graph);
  return recounted([=] { return REAL(cuGraphLaunch, Handle, Handle)(graph, stream); });
}

SHIM_EXPORT Status cuGraphLaunch_ptsz(Handle graph, Handle stream) {
  const GateScope gate_scope;
  if (notes_touches()) touch_graph(graph);
  return recounted([=] { return REAL(cuGraphLaunch_ptsz, Handle, Handle)(graph, stream); });
}

// It does not wait: a program can end while its memory is out.
SHIM_EXPORT Status cuGraphExecDestroy(Handle graph) {
  graph_is_ended(graph);
  return REAL(cuGraphExecDestroy, Handle)(graph);
}

SHIM_EXPORT Status cuGraphUpload(Handle graph, Handle stream) {
  return recounted([=] { return REAL(cuGraphUpload, Handle, Handle)(graph, stream); });
}

SHIM_EXPORT Status cuGraphUpload_ptsz(Handle graph, Handle stream) {
  return recounted([=] { return REAL(cuGraphUpload_ptsz, Handle, Handle)(graph, stream); });
}

SHIM_EXPORT Status cuDeviceGraphMemTrim(Device device) {
  return recounted([=] { return REAL(cuDeviceGraphMemTrim, Device)(device); });
}

SHIM_EXPORT Status cuGraphAddMemAllocNode(Handle* node, Handle graph, const Handle* dependencies,
                                          size_t count, void* parameters) {
  const GateScope gate_scope;
  const Status status = REAL(cuGraphAddMemAllocNode, Handle*, Handle, const Handle*, size_t, void*)(
      node, graph, dependencies, count, parameters);
  if (status == kSuccess) graphs_allocate();
  return status;
}

SHIM_EXPORT Status cuGraphAddNode(Handle* node, Handle graph, const Handle* dependencies,
                                  size_t count, void* parameters) {
  const GateScope gate_scope;
  if (notes_touches()) place_node(parameters);
  const Status status = REAL(cuGraphAddNode, Handle*, Handle, const Handle*, size_t, void*)(
      node, graph, dependencies, count, parameters);
  note(status, parameters);
  return status;
}

SHIM_EXPORT Status cuGraphAddNode_v2(Handle* node, Handle graph, const Handle* dependencies,
                                     const void* edges, size_t count, void* parameters) {
  const GateScope gate_scope;
  if (notes_touches()) place_node(parameters);
  const Status status = REAL(cuGraphAddNode_v2, Handle*, Handle, const Handle*, const void*, size_t,
                             void*)(node, graph, dependencies, edges, count, parameters);
  note(status, parameters);
  return status;
}
