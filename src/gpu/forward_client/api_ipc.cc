// Device memory that processes of one executor hand to each other: at its address, for they share a
// context there. Beyond what CUDA promises, memory whose handle was taken stays until it has been
// opened as often as its handle was taken, even if its owner frees it meanwhile (within limits of
// time: docs/guides/shared-runtime.md).
#include <cstring>

#include "gpu/forward_client/api.h"

using namespace lambent::forward_client;

namespace {

// What a handle says. One that a program fills with kNamed and a name before it is asked for names
// the memory.
struct Ticket {
  char kind[16];
  uint64_t high, low;
  uint64_t unused[4];
};
static_assert(sizeof(Ticket) == sizeof(CUipcMemHandle));
constexpr char kDrawn[17] = "lambent:memory:1", kNamed[17] = "lambent:named:v1";

bool is_of(const Ticket& ticket, const char* kind) {
  return std::memcmp(ticket.kind, kind, sizeof(ticket.kind)) == 0;
}

CUresult remember(const uint64_t* values, uint64_t context) {
  const StateLock lock;
  const Range range = {values[0], values[1], context, 0, kOpenedRange, ++state().last_id};
  return state().device_ranges.add(range) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

// Takes the opened range that begins there out of the accounting.
CUresult forget(CUdeviceptr address) {
  const StateLock lock;
  const Range* range = state().device_ranges.find(address);
  if (range == nullptr || range->begin != address || range->flags != kOpenedRange) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  state().device_ranges.erase(address);
  return CUDA_SUCCESS;
}

CUresult current_number(uint64_t* number) {
  WITH_CONTEXT();
  *number = context->number;
  return CUDA_SUCCESS;
}

// Any address in an allocation stands for all of it.
CUresult beginning_of(CUdeviceptr* address) {
  WITH_CONTEXT();
  const Range* range = state().device_ranges.find(*address);
  if (range == nullptr || range->owner != 0) return CUDA_ERROR_INVALID_VALUE;
  *address = range->begin;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = beginning_of(&address)) return result;
  Ticket ticket;
  std::memcpy(&ticket, handle, sizeof(ticket));
  const bool named = is_of(ticket, kNamed);
  if (named && ticket.high == 0 && ticket.low == 0) return CUDA_ERROR_INVALID_VALUE;
  uint64_t values[2] = {};
  const CUresult result = ask(
      make_call(CallCode::kExportMemory, address, named ? ticket.high : 0, named ? ticket.low : 0),
      values, 2);
  if (result != CUDA_SUCCESS || named) return result;
  ticket = {};
  std::memcpy(ticket.kind, kDrawn, sizeof(ticket.kind));
  ticket.high = values[0];
  ticket.low = values[1];
  std::memcpy(handle, &ticket, sizeof(ticket));
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle, unsigned int flags) {
  uint64_t context = 0, values[2] = {};
  if (const CUresult result = current_number(&context)) return result;
  if (address == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Ticket ticket;
  std::memcpy(&ticket, &handle, sizeof(ticket));
  if (!is_of(ticket, kDrawn) && !is_of(ticket, kNamed)) return CUDA_ERROR_INVALID_HANDLE;
  CUresult result =
      ask(make_call(CallCode::kOpenMemory, context, ticket.high, ticket.low), values, 2);
  if (result == CUDA_SUCCESS) result = remember(values, context);
  if (result == CUDA_SUCCESS) *address = values[0];
  return result;
}

VARIANT cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle handle, unsigned int flags) {
  return cuIpcOpenMemHandle_v2(address, handle, flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  if (const CUresult result = require_context()) return result;
  if (const CUresult result = forget(address)) return result;
  return ask(make_call(CallCode::kFree, address));
}
