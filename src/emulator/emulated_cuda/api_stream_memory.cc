// Waits for and writes of words of memory in stream order; attributes of streams.
#include <cstring>

#include "emulator/emulated_cuda/api.h"

using namespace lambent::emulated_cuda;

namespace {

constexpr unsigned kMostOperations = 256;

CUresult put(CUstream handle, MemoryOperations operations) {
  WITH_STREAM(handle);
  if (CUresult result = check(*process, operations)) return result;
  return enqueue(*process, context, stream, std::move(operations));
}

CUresult put_one(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr address, uint64_t value,
                 unsigned flags) {
  CUstreamBatchMemOpParams one;
  std::memset(&one, 0, sizeof one);
  one.waitValue.operation = type;
  one.waitValue.address = address;
  one.waitValue.value64 = value;
  one.waitValue.flags = flags;
  return put(stream, {{one}});
}

bool is_stream_attribute(CUstreamAttrID id) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      return true;
    default:
      return false;
  }
}

}  // namespace

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                unsigned int flags) {
  return put_one(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags);
}
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                unsigned int flags) {
  return put_one(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags);
}
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                 unsigned int flags) {
  return put_one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags);
}
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                 unsigned int flags) {
  return put_one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags);
}
CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* list,
                               unsigned int flags) {
  if (flags || count > kMostOperations || (count && !list)) return CUDA_ERROR_INVALID_VALUE;
  return put(stream, {{list, list + count}});
}

// The first ABI is the same with fewer kinds of operations.
CUresult cuStreamWaitValue32(CUstream s, CUdeviceptr address, cuuint32_t value,
                             unsigned int flags) {
  return cuStreamWaitValue32_v2(s, address, value, flags);
}
CUresult cuStreamWaitValue64(CUstream s, CUdeviceptr address, cuuint64_t value,
                             unsigned int flags) {
  return cuStreamWaitValue64_v2(s, address, value, flags);
}
CUresult cuStreamWriteValue32(CUstream s, CUdeviceptr address, cuuint32_t value,
                              unsigned int flags) {
  return cuStreamWriteValue32_v2(s, address, value, flags);
}
CUresult cuStreamWriteValue64(CUstream s, CUdeviceptr address, cuuint64_t value,
                              unsigned int flags) {
  return cuStreamWriteValue64_v2(s, address, value, flags);
}
CUresult cuStreamBatchMemOp(CUstream s, unsigned int count, CUstreamBatchMemOpParams* list,
                            unsigned int flags) {
  return cuStreamBatchMemOp_v2(s, count, list, flags);
}

CUresult cuStreamGetAttribute(CUstream handle, CUstreamAttrID id, CUstreamAttrValue* value) {
  WITH_STREAM(handle);
  if (!value || !is_stream_attribute(id)) return CUDA_ERROR_INVALID_VALUE;
  stream->get_attribute(id, value);
  return CUDA_SUCCESS;
}
CUresult cuStreamSetAttribute(CUstream handle, CUstreamAttrID id, const CUstreamAttrValue* value) {
  WITH_STREAM(handle);
  if (!value || !is_stream_attribute(id)) return CUDA_ERROR_INVALID_VALUE;
  // The priority of a stream is settled when it is made.
  if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) return CUDA_ERROR_INVALID_VALUE;
  stream->set_attribute(id, *value);
  return CUDA_SUCCESS;
}
CUresult cuStreamCopyAttributes(CUstream to, CUstream from) {
  WITH_STREAM(to);
  std::shared_ptr<Stream> source;
  std::shared_ptr<Context> other = context;
  if (CUresult result = resolve_stream(*process, from, &other, &source)) return result;
  if (other != context) return CUDA_ERROR_INVALID_VALUE;
  stream->copy_attributes(*source);
  return CUDA_SUCCESS;
}
