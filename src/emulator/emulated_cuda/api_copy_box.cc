// Copies of boxes, between contexts, and many copies in one call.
#include <algorithm>
#include <cstring>
#include <vector>

#include "emulator/emulated_cuda/api.h"
#include "emulator/emulated_cuda/arrays.h"
#include "emulator/emulated_cuda/gates.h"

using namespace lambent::emulated_cuda;

namespace {

CUresult copy_box(const CUDA_MEMCPY3D& request, bool peer, CUstream handle, bool synchronous) {
  WITH_STREAM(handle);
  Copy copy{};
  if (CUresult result = make_copy(*process, request, &copy)) return result;
  if (copy.shape.width == 0) return CUDA_SUCCESS;
  if (!copy.permitted()) return CUDA_ERROR_INVALID_VALUE;
  copy.peer = peer;
  CompletionPtr end;
  if (CUresult result = enqueue(*process, context, stream, copy, &end)) return result;
  if (end && (synchronous || copy.pageable())) end->wait();
  return CUDA_SUCCESS;
}

CUresult copy_peer_box(const CUDA_MEMCPY3D_PEER* request, CUstream handle) {
  WITH_PROCESS();
  if (!request) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_MEMCPY3D_PEER& r = *request;
  auto known = [&](CUmemorytype type, CUcontext context) {
    return type == CU_MEMORYTYPE_ARRAY || process->contexts.find(context);
  };
  if (!known(r.srcMemoryType, r.srcContext) || !known(r.dstMemoryType, r.dstContext)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  // The two requests differ only in what stands where the contexts are.
  CUDA_MEMCPY3D box;
  static_assert(sizeof box == sizeof r);
  std::memcpy(&box, &r, sizeof box);
  box.reserved0 = box.reserved1 = nullptr;
  return copy_box(box, true, handle, false);
}

// The same in the order of everything that the contexts do.
CUresult copy_peer_box_in_order(const CUDA_MEMCPY3D_PEER* request) {
  WITH_CONTEXT();
  if (!request) return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::shared_ptr<Context>> named;
  for (CUcontext handle : {request->srcContext, request->dstContext}) {
    // Beside an array there may be none.
    if (auto known = process->contexts.find(handle)) named.push_back(std::move(known));
  }
  return submit_between(*process, *context, named,
                        [&] { return copy_peer_box(request, CU_STREAM_LEGACY); });
}

bool is_order(CUmemcpySrcAccessOrder order) {
  return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

// Adds a copy to the batch; what is pageable makes the caller wait, unless it asked for otherwise.
CUresult add(CopyBatch& batch, Copy copy, CUmemcpySrcAccessOrder order, bool* wait) {
  if (!copy.permitted()) return CUDA_ERROR_INVALID_VALUE;
  bool source_first = order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  if (source_first) {
    auto kept = offload(copy);
    source_first = kept != nullptr;
    *wait = *wait || !kept;
    if (kept) batch.kept.push_back(std::move(kept));
  }
  bool source_later = order == CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
  *wait = *wait || !copy.to.pinned || (!copy.from.pinned && !source_first && !source_later);
  batch.copies.push_back(copy);
  return CUDA_SUCCESS;
}

CUresult submit_batch(Process& process, const std::shared_ptr<Context>& context,
                      const std::shared_ptr<Stream>& stream, CopyBatch batch, bool wait) {
  CompletionPtr end;
  if (CUresult result = enqueue(process, context, stream, std::move(batch), &end)) return result;
  if (end && wait) end->wait();
  return CUDA_SUCCESS;
}

// `failed`, of the first ABI, tells which copy was at fault; SIZE_MAX: none in particular.
CUresult copy_batch(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count,
                    CUmemcpyAttributes* attributes, size_t* indices, size_t attribute_count,
                    size_t* failed, CUstream handle) {
  if (failed) *failed = SIZE_MAX;
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return CUDA_ERROR_INVALID_VALUE;
  WITH_STREAM(handle);
  if (!to || !from || !sizes || count == 0 || !attributes || !indices || attribute_count == 0 ||
      attribute_count > count || indices[0] != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CopyBatch batch;
  bool wait = false;
  for (size_t k = 0; k < attribute_count; k++) {
    size_t last = k + 1 < attribute_count ? indices[k + 1] : count;
    if (indices[k] >= last || last > count) return CUDA_ERROR_INVALID_VALUE;
    if (!is_order(attributes[k].srcAccessOrder) ||
        attributes[k].flags > CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = indices[k]; i < last; i++) {
      CUDA_MEMCPY3D line{};
      line.srcMemoryType = line.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
      line.srcDevice = from[i];
      line.dstDevice = to[i];
      line.WidthInBytes = sizes[i];
      line.Height = line.Depth = 1;
      Copy copy{};
      CUresult result = sizes[i] == 0 ? CUDA_ERROR_INVALID_VALUE : make_copy(*process, line, &copy);
      if (!result) result = add(batch, copy, attributes[k].srcAccessOrder, &wait);
      if (!result) continue;
      if (failed) *failed = i;
      return result;
    }
  }
  return submit_batch(*process, context, stream, std::move(batch), wait);
}

// Puts one end of a batched box into the request; sizes of a pointer's box count in elements.
CUresult place(Process& process, const CUmemcpy3DOperand& operand, const CUextent3D& extent,
               size_t element_bytes, bool source, CUDA_MEMCPY3D* r) {
  CUmemorytype& type = source ? r->srcMemoryType : r->dstMemoryType;
  if (operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
    if (!process.arrays.find(operand.op.array.array)) return CUDA_ERROR_INVALID_HANDLE;
    const CUoffset3D& at = operand.op.array.offset;
    type = CU_MEMORYTYPE_ARRAY;
    (source ? r->srcArray : r->dstArray) = operand.op.array.array;
    if (at.x > SIZE_MAX / element_bytes) return CUDA_ERROR_INVALID_VALUE;
    (source ? r->srcXInBytes : r->dstXInBytes) = at.x * element_bytes;
    (source ? r->srcY : r->dstY) = at.y;
    (source ? r->srcZ : r->dstZ) = at.z;
    return CUDA_SUCCESS;
  }
  if (operand.type != CU_MEMCPY_OPERAND_TYPE_POINTER) return CUDA_ERROR_INVALID_VALUE;
  const auto& pointer = operand.op.ptr;
  bool too_short = (pointer.rowLength && pointer.rowLength < extent.width) ||
                   (pointer.layerHeight && pointer.layerHeight < extent.height) ||
                   pointer.rowLength > SIZE_MAX / element_bytes;
  if (too_short) return CUDA_ERROR_INVALID_VALUE;
  type = CU_MEMORYTYPE_UNIFIED;
  (source ? r->srcDevice : r->dstDevice) = pointer.ptr;
  (source ? r->srcPitch : r->dstPitch) = pointer.rowLength * element_bytes;
  (source ? r->srcHeight : r->dstHeight) = pointer.layerHeight;
  return CUDA_SUCCESS;
}

CUresult make_box(Process& process, const CUDA_MEMCPY3D_BATCH_OP& operation, Copy* copy) {
  const CUextent3D& extent = operation.extent;
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!is_order(operation.srcAccessOrder) ||
      operation.flags > CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  size_t element_bytes = 1;
  bool known = false;
  for (const CUmemcpy3DOperand* operand : {&operation.src, &operation.dst}) {
    if (operand->type != CU_MEMCPY_OPERAND_TYPE_ARRAY) continue;
    auto array = process.arrays.find(operand->op.array.array);
    if (!array) return CUDA_ERROR_INVALID_HANDLE;
    if (known && array->element_bytes != element_bytes) return CUDA_ERROR_INVALID_VALUE;
    element_bytes = array->element_bytes;
    known = true;
  }
  if (extent.width > SIZE_MAX / element_bytes) return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY3D request{};
  request.WidthInBytes = extent.width * element_bytes;
  request.Height = extent.height;
  request.Depth = extent.depth;
  if (CUresult result = place(process, operation.src, extent, element_bytes, true, &request)) {
    return result;
  }
  if (CUresult result = place(process, operation.dst, extent, element_bytes, false, &request)) {
    return result;
  }
  return make_copy(process, request, copy);
}

CUresult copy_box_batch(size_t count, CUDA_MEMCPY3D_BATCH_OP* operations, size_t* failed,
                        unsigned long long flags, CUstream handle) {
  if (failed) *failed = SIZE_MAX;
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return CUDA_ERROR_INVALID_VALUE;
  WITH_STREAM(handle);
  if (!operations || count == 0 || flags) return CUDA_ERROR_INVALID_VALUE;
  CopyBatch batch;
  bool wait = false;
  for (size_t i = 0; i < count; i++) {
    Copy copy{};
    CUresult result = make_box(*process, operations[i], &copy);
    if (!result) result = add(batch, copy, operations[i].srcAccessOrder, &wait);
    if (!result) continue;
    if (failed) *failed = i;
    return result;
  }
  return submit_batch(*process, context, stream, std::move(batch), wait);
}

}  // namespace

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* request) {
  if (!request) return CUDA_ERROR_INVALID_VALUE;
  return copy_box(*request, false, CU_STREAM_LEGACY, true);
}
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* request, CUstream stream) {
  if (!request) return CUDA_ERROR_INVALID_VALUE;
  return copy_box(*request, false, stream, false);
}
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* request) {
  return copy_peer_box_in_order(request);
}
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* request, CUstream stream) {
  return copy_peer_box(request, stream);
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count,
                               CUmemcpyAttributes* attributes, size_t* indices,
                               size_t attribute_count, CUstream stream) {
  return copy_batch(to, from, sizes, count, attributes, indices, attribute_count, nullptr, stream);
}
CUresult cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count,
                            CUmemcpyAttributes* attributes, size_t* indices, size_t attribute_count,
                            size_t* failed, CUstream stream) {
  return copy_batch(to, from, sizes, count, attributes, indices, attribute_count, failed, stream);
}
CUresult cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP* operations,
                                 unsigned long long flags, CUstream stream) {
  return copy_box_batch(count, operations, nullptr, flags, stream);
}
CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP* operations, size_t* failed,
                              unsigned long long flags, CUstream stream) {
  return copy_box_batch(count, operations, failed, flags, stream);
}
