// Device memory and events for other processes by handles that are plain bytes.
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "emulator/emulated_cuda/api.h"
#include "emulator/emulated_cuda/memory_users.h"

using namespace lambent::emulated_cuda;

namespace {

constexpr uint64_t kMemoryMagic = 0x454d554950434d31;  // "EMUIPCM1"
constexpr uint64_t kEventMagic = 0x454d554950434531;   // "EMUIPCE1"

uint64_t magic_of(Process& process, uint64_t kind) {
  Node::Guard guard(*process.node);
  return kind ^ static_cast<uint64_t>(guard->epoch_real_ns);
}

}  // namespace

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  WITH_CONTEXT();
  auto allocation = process->memory.find(address, 1);
  if (!handle || !allocation) return CUDA_ERROR_INVALID_VALUE;
  // Mapped memory and pools have descriptors of their own.
  if (allocation->kind != MemoryKind::kDevice) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& other : process->contexts.all()) synchronize(*other);
  auto pages = process->memory.share(*allocation);
  struct stat info;
  if (!pages || fstat(pages->descriptor, &info) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  MemoryTicket ticket{};
  ticket.magic = magic_of(*process, kMemoryMagic);
  ticket.generation = process->generation;
  ticket.file = static_cast<uint64_t>(info.st_ino);
  ticket.offset = pages->offset;
  ticket.bytes = allocation->bytes;
  ticket.backing_bytes = allocation->backing_bytes;
  ticket.pid = getpid();
  ticket.descriptor = pages->descriptor;
  ticket.device = allocation->device;
  std::memcpy(handle, &ticket, sizeof *handle);
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle, unsigned int flags) {
  WITH_CONTEXT();
  if (!address || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
  MemoryTicket ticket;
  std::memcpy(&ticket, &handle, sizeof ticket);
  if (ticket.magic != magic_of(*process, kMemoryMagic)) return CUDA_ERROR_INVALID_VALUE;
  if (ticket.generation == process->generation) return CUDA_ERROR_INVALID_CONTEXT;
  if (process->ordinal_of(ticket.device) < 0) return CUDA_ERROR_INVALID_DEVICE;
  auto opened = process->opened_memory.open(ticket, context.get(), process->memory);
  if (!opened) {
    log_refusal("cuIpcOpenMemHandle", "the owner or its memory has gone, or cannot be seen here");
    return CUDA_ERROR_INVALID_VALUE;
  }
  *address = *opened;
  return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  WITH_CONTEXT();
  synchronize_users(*process, *context, address);
  return process->opened_memory.close(address, process->memory) ? CUDA_SUCCESS
                                                                : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent given) {
  WITH_CONTEXT();
  auto event = given ? process->events.find(given) : nullptr;
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  EventTicket ticket{};
  // One of another process is not this one's to hand on.
  if (!event->shared || !event->shared->tell(&ticket)) return CUDA_ERROR_INVALID_HANDLE;
  auto owner = process->contexts.find(event->context);
  if (!owner) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  ticket.magic = magic_of(*process, kEventMagic);
  ticket.generation = process->generation;
  ticket.device = owner->device;
  std::memcpy(handle, &ticket, sizeof *handle);
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent* out, CUipcEventHandle handle) {
  WITH_CONTEXT();
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  EventTicket ticket;
  std::memcpy(&ticket, &handle, sizeof ticket);
  if (ticket.magic != magic_of(*process, kEventMagic)) return CUDA_ERROR_INVALID_HANDLE;
  if (ticket.generation == process->generation) return CUDA_ERROR_INVALID_CONTEXT;
  if (process->ordinal_of(ticket.device) < 0) return CUDA_ERROR_INVALID_DEVICE;
  auto shared = InterprocessEvent::open(ticket);
  if (!shared) {
    log_refusal("cuIpcOpenEventHandle", "the owner or its event has gone, or cannot be seen here");
    return CUDA_ERROR_MAP_FAILED;
  }
  auto event = std::make_shared<Event>(
      context.get(), CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING, std::move(shared));
  *out = reinterpret_cast<CUevent>(process->events.insert(std::move(event)));
  return CUDA_SUCCESS;
}
