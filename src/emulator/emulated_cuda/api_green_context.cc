// Green contexts: the multiprocessors of a device, split, described and given to contexts that
// share the memory of the primary one; and events over all streams of a context.
#include <algorithm>
#include <memory>
#include <vector>

#include "emulator/emulated_cuda/api.h"
#include "emulator/emulated_cuda/events.h"
#include "emulator/emulated_cuda/gates.h"
#include "emulator/emulated_cuda/sm_resources.h"

using namespace lambent::emulated_cuda;

namespace {

SmResource resource_of(const Process& process, const Context& context) {
  const DeviceSpec& spec = process.spec(context.device);
  SmResource resource;
  resource.partition = context.device;
  resource.compute_major = spec.compute_major;
  resource.members =
      context.members.empty() ? MultiprocessorSet::first(spec.multiprocessors) : context.members;
  return resource;
}

CUresult check_type(const CUdevResource* resource, CUdevResourceType type) {
  if (!resource) return CUDA_ERROR_INVALID_VALUE;
  return type == CU_DEV_RESOURCE_TYPE_SM ? CUDA_SUCCESS : CUDA_ERROR_INVALID_RESOURCE_TYPE;
}

std::shared_ptr<GreenContext> find_green(Process& process, CUgreenCtx handle) {
  return handle ? process.green_contexts.find(handle) : nullptr;
}

CUgreenCtx as_handle(const GreenContext* green) {
  return reinterpret_cast<CUgreenCtx>(const_cast<GreenContext*>(green));
}

GreenContext* make_green(Process& process, std::shared_ptr<Context> root,
                         const MultiprocessorSet& members) {
  auto context = std::make_shared<Context>();
  context->ordinal = root->ordinal;
  context->device = root->device;
  context->flags = root->flags;
  context->primary = false;
  context->id = process.next_id++;
  context->epoch = root->epoch;
  std::copy(std::begin(root->limits), std::end(root->limits), context->limits);
  context->root = std::move(root);
  context->members = members;
  context->legacy = std::make_shared<Stream>(context.get(), CU_STREAM_DEFAULT, 0, process.next_id++,
                                             *process.holds);
  auto green = std::make_shared<GreenContext>();
  green->ordinal = context->ordinal;
  green->id = context->id;
  green->context = context;
  context->green = green.get();
  process.contexts.insert(std::move(context));
  return process.green_contexts.insert(std::move(green));
}

// The green contexts of a primary context; of any other none.
std::vector<std::shared_ptr<Context>> green_ones_of(Process& process, const Context& context) {
  std::vector<std::shared_ptr<Context>> contexts;
  for (const auto& green : process.green_contexts.all()) {
    if (green->context->root.get() == &context) contexts.push_back(green->context);
  }
  return contexts;
}

// The event stands for all that is in the context's streams now, and in those of its green ones.
CUresult record_all(Process& process, Context& context, CUevent handle) {
  auto event = handle ? process.events.find(handle) : nullptr;
  if (!event || !same_root(process, event->context, &context)) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult result = refuse_if_context_captures(process, context)) return result;
  const uint64_t number = begin_record(process, *event);
  auto ends = ends_of(context);
  for (const auto& green : green_ones_of(process, context)) {
    for (auto& end : ends_of(*green)) ends.push_back(std::move(end));
  }
  event->record(submit_offloaded(process, context, std::move(ends),
                                 [event, number](int64_t begin_ns) {
                                   finish_record(*event, number, begin_ns);
                                   return begin_ns;
                                 }),
                number);
  return CUDA_SUCCESS;
}

// All later work of the context, and of its green ones, begins after what the event stands for now.
CUresult wait_in_all(Process& process, Context& context, CUevent handle) {
  auto event = handle ? process.events.find(handle) : nullptr;
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  if (refuse_if_captured(process, *event)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (CUresult result = refuse_if_context_captures(process, context)) return result;
  CompletionPtr end = last_end(process, context, event);
  if (!end || end->done()) return CUDA_SUCCESS;
  for (const auto& green : green_ones_of(process, context)) add_gate(*green, end);
  add_gate(context, end);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* resource, CUdevResourceType type) {
  WITH_PROCESS();
  int partition;
  if (CUresult result = check_type(resource, type)) return result;
  if (CUresult result = process->device_of(device, &partition)) return result;
  Context whole;
  whole.device = partition;
  *resource = pack(resource_of(*process, whole));
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevResource(CUcontext handle, CUdevResource* resource, CUdevResourceType type) {
  WITH_PROCESS();
  if (CUresult result = check_type(resource, type)) return result;
  auto context = process->contexts.find(handle);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  *resource = pack(resource_of(*process, *context));
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource* resource,
                                  CUdevResourceType type) {
  WITH_PROCESS();
  if (CUresult result = check_type(resource, type)) return result;
  auto green = find_green(*process, handle);
  if (!green) return CUDA_ERROR_INVALID_CONTEXT;
  *resource = pack(resource_of(*process, *green->context));
  return CUDA_SUCCESS;
}

CUresult cuDevSmResourceSplitByCount(CUdevResource* result, unsigned int* count,
                                     const CUdevResource* input, CUdevResource* remaining,
                                     unsigned int flags, unsigned int least) {
  WITH_PROCESS();
  SmResource whole;
  CUresult error;
  if (!count || !input || flags > 3 || (result && *count == 0)) return CUDA_ERROR_INVALID_VALUE;
  if (!unpack(*input, &whole, &error)) return error;
  bool clusters = flags & CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE;
  if (clusters && whole.compute_major < 9) return CUDA_ERROR_INVALID_VALUE;
  if (whole.split) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  if (least > static_cast<unsigned>(whole.members.count())) return CUDA_ERROR_INVALID_VALUE;
  int most = result ? static_cast<int>(std::min(*count, 1u << 16)) : 1 << 16;
  Split parts = split(whole, split_rule(whole.compute_major, flags), static_cast<int>(least), most,
                      process->next_id++);
  if (parts.groups.empty()) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  for (size_t i = 0; result && i < parts.groups.size(); i++) result[i] = pack(parts.groups[i]);
  *count = static_cast<unsigned>(parts.groups.size());
  if (!remaining) return CUDA_SUCCESS;
  *remaining = CUdevResource{};  // of no type if nothing is left
  if (!parts.remaining.members.empty()) *remaining = pack(parts.remaining);
  return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* out, CUdevResource* resources,
                                   unsigned int count) {
  WITH_PROCESS();
  if (!out || !resources || count == 0) return CUDA_ERROR_INVALID_VALUE;
  auto descriptor = std::make_shared<ResourceDescriptor>();
  SmResource first;
  for (unsigned i = 0; i < count; i++) {
    SmResource one;
    CUresult error;
    if (!unpack(resources[i], &one, &error)) return error;
    if (i == 0) first = one;
    bool together = one.partition == first.partition && one.split == first.split && one.split;
    if ((count > 1 && !together) || descriptor->members.intersects(one.members)) {
      return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    }
    descriptor->members = descriptor->members | one.members;
  }
  descriptor->partition = first.partition;
  *out = reinterpret_cast<CUdevResourceDesc>(process->descriptors.insert(std::move(descriptor)));
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxCreate(CUgreenCtx* out, CUdevResourceDesc handle, CUdevice device,
                          unsigned int flags) {
  WITH_PROCESS();
  int partition;
  if (!out || flags != CU_GREEN_CTX_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = process->device_of(device, &partition)) return result;
  auto descriptor = handle ? process->descriptors.find(handle) : nullptr;
  if (!descriptor || descriptor->partition != partition) return CUDA_ERROR_INVALID_VALUE;
  CUcontext primary;
  if (CUresult result = cuDevicePrimaryCtxRetain(&primary, device)) return result;
  *out = as_handle(make_green(*process, process->contexts.find(primary), descriptor->members));
  return CUDA_SUCCESS;
}

// Its streams stay, as handles of which every use says that their context is destroyed; memory and
// modules stay with the primary context.
CUresult cuGreenCtxDestroy(CUgreenCtx handle) {
  WITH_PROCESS();
  auto green = handle ? process->green_contexts.remove(handle) : nullptr;
  if (!green) return CUDA_ERROR_INVALID_CONTEXT;
  auto context = process->contexts.remove(green->context.get());
  if (!context) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  synchronize(*context);
  {
    const lambent::MutexLock lock(context->order);
    context->legacy->close();
    for (const auto& weak : context->streams) {
      if (auto stream = weak.lock()) stream->close();
    }
  }
  Context* root = context->root.get();
  process->memory.hand_over(context.get(), root);
  for (const auto& module : process->modules.all()) {
    if (module->context == context.get()) module->context = root;
  }
  process->events.remove_if([&](Event& event) { return event.context == context.get(); });
  return cuDevicePrimaryCtxRelease_v2(green->ordinal);
}

CUresult cuCtxFromGreenCtx(CUcontext* out, CUgreenCtx handle) {
  WITH_PROCESS();
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  auto green = find_green(*process, handle);
  if (!green) return CUDA_ERROR_INVALID_CONTEXT;
  *out = reinterpret_cast<CUcontext>(green->context.get());
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxGetId(CUgreenCtx handle, unsigned long long* id) {
  WITH_PROCESS();
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  auto green = find_green(*process, handle);
  if (!green) return CUDA_ERROR_INVALID_CONTEXT;
  *id = green->id;
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxStreamCreate(CUstream* out, CUgreenCtx handle, unsigned int flags,
                                int priority) {
  WITH_PROCESS();
  if (!out || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  auto green = find_green(*process, handle);
  if (!green) return CUDA_ERROR_INVALID_CONTEXT;
  Context& context = *green->context;
  auto stream = std::make_shared<Stream>(&context, flags, std::clamp(priority, -5, 0),
                                         process->next_id++, *process->holds);
  {
    const lambent::MutexLock lock(context.order);
    std::erase_if(context.streams, [](const auto& weak) { return weak.expired(); });
    context.streams.push_back(stream);
  }
  *out = reinterpret_cast<CUstream>(process->streams.insert(std::move(stream)));
  return CUDA_SUCCESS;
}

CUresult cuStreamGetGreenCtx(CUstream handle, CUgreenCtx* out) {
  WITH_STREAM(handle);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = as_handle(context->green);  // null for a stream of an ordinary context
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext* out, CUgreenCtx* green) {
  WITH_STREAM(handle);
  if (!out || !green) return CUDA_ERROR_INVALID_VALUE;
  *green = as_handle(context->green);
  *out = context->green ? nullptr : reinterpret_cast<CUcontext>(context.get());
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx handle, CUevent event) {
  WITH_PROCESS();
  auto green = find_green(*process, handle);
  if (!green) return CUDA_ERROR_INVALID_CONTEXT;
  return record_all(*process, *green->context, event);
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx handle, CUevent event) {
  WITH_PROCESS();
  auto green = find_green(*process, handle);
  if (!green) return CUDA_ERROR_INVALID_CONTEXT;
  return wait_in_all(*process, *green->context, event);
}

CUresult cuCtxRecordEvent(CUcontext handle, CUevent event) {
  WITH_PROCESS();
  auto context = process->contexts.find(handle);
  return context ? record_all(*process, *context, event) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxWaitEvent(CUcontext handle, CUevent event) {
  WITH_PROCESS();
  auto context = process->contexts.find(handle);
  return context ? wait_in_all(*process, *context, event) : CUDA_ERROR_INVALID_CONTEXT;
}
