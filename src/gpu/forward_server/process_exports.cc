#include "gpu/forward_server/process_exports.h"

namespace lambent::forward_server {

using forward_ring::CallCode;

bool ProcessExports::handle(const Call& call) {
  switch (static_cast<CallCode>(call.code)) {
    case CallCode::kExportMemory:
      hand_out(call);
      return true;
    case CallCode::kOpenMemory:
      open(call);
      return true;
    default:
      return false;
  }
}

bool ProcessExports::release(CUdeviceptr address) {
  const auto found = shares_.find(address);
  if (found == shares_.end()) return false;
  shares_.erase(found);
  return true;
}

// From now on the memory counts with its shares, no longer by the process's range.
void ProcessExports::hand_out(const Call& call) {
  const CUdeviceptr address = call.arguments[0];
  const MemoryHandle name = {call.arguments[1], call.arguments[2]};
  const AddressRange* range = ranges_.find(address);
  if (range == nullptr || range->module != 0) {
    return answers_.answer(call, CUDA_ERROR_INVALID_VALUE);
  }
  auto known = shares_.find(address);
  if (known == shares_.end()) {
    auto share = handles_.share(owner_, {address, range->bytes, Bytes(range->counted_bytes)});
    if (share == nullptr) return answers_.answer(call, CUDA_ERROR_OUT_OF_MEMORY);
    known = shares_.emplace(address, std::move(share));
  }
  MemoryHandle handle = name;
  if (name == MemoryHandle{}) {
    handle = handles_.hand_out(known->second);
  } else if (!handles_.give_name(known->second, name)) {
    return answers_.answer(call, CUDA_ERROR_ALREADY_MAPPED);
  }
  answers_.answer(call, CUDA_SUCCESS, {handle.high, handle.low});
}

void ProcessExports::open(const Call& call) {
  const uint64_t context = call.arguments[0];
  if (!streams_.has_context(context)) return answers_.answer(call, CUDA_ERROR_INVALID_CONTEXT);
  auto share = handles_.open({call.arguments[1], call.arguments[2]});
  if (share == nullptr) return answers_.answer(call, CUDA_ERROR_INVALID_HANDLE);
  const ExportedMemory::Place& place = share->place();
  if (ranges_.find(place.address) != nullptr) {
    if (share->drawn == MemoryHandle{call.arguments[1], call.arguments[2]}) {
      handles_.hand_out(share);  // the opening is still to come
    }
    return answers_.answer(call, CUDA_ERROR_ALREADY_MAPPED);
  }
  ranges_.add(place.address, {place.bytes, 0, context, 0});
  const CUdeviceptr address = place.address;
  const uint64_t bytes = place.bytes;
  shares_.emplace(address, std::move(share));
  answers_.answer(call, CUDA_SUCCESS, {address, bytes});
}

}  // namespace lambent::forward_server
