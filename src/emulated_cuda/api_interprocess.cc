// Device memory for other processes by handles that are plain bytes.
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "emulated_cuda/api.h"

using namespace lambent::emulated_cuda;

namespace {

constexpr uint64_t kTicketMagic = 0x454d554950434d31;  // "EMUIPCM1"

uint64_t magic_of(Process& process) {
  Node::Guard guard(*process.node);
  return kTicketMagic ^ static_cast<uint64_t>(guard->epoch_real_ns);
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
  ticket.magic = magic_of(*process);
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
  if (ticket.magic != magic_of(*process)) return CUDA_ERROR_INVALID_VALUE;
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
  synchronize(*context);
  return process->opened_memory.close(address, process->memory) ? CUDA_SUCCESS
                                                                : CUDA_ERROR_INVALID_VALUE;
}
