#include "gpu/forward_server/functions.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lambent::forward_server {
namespace {

using forward_ring::CallCode;
using forward_ring::ParameterPlace;

constexpr size_t kMostParameters = 4096;
static_assert(kMostParameters * sizeof(ParameterPlace) <= forward_ring::kChunkBytes);

uint32_t low(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t high(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

// What its places take of the client's host memory.
Bytes known_bytes(const Function& function) {
  return Bytes(function.parameters->size() * sizeof(ParameterPlace));
}

}  // namespace

bool Functions::handle(const Call& call, std::span<char> data) {
  switch (static_cast<CallCode>(call.code)) {
    case CallCode::kLaunch:
      answers_.note(launch(call, data));
      return true;
    case CallCode::kFunctionName:
      name(call);
      return true;
    case CallCode::kFunctionParameters:
      parameters(call);
      return true;
    case CallCode::kFunctionAttribute:
    case CallCode::kSetFunctionAttribute:
    case CallCode::kSetCacheConfig:
    case CallCode::kOccupancy:
    case CallCode::kOccupancySharedMemory: {
      uint64_t value = 0;
      const CUresult result = ask(call, &value);
      answers_.answer(call, result, {value});
      return true;
    }
    default:
      return false;
  }
}

CUresult Functions::read_parameters(Function* function) const {
  if (driver_->func_get_param_info == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  std::vector<ParameterPlace> places;
  for (size_t index = 0;; ++index) {
    size_t offset = 0, bytes = 0;
    const CUresult result =
        driver_->func_get_param_info(function->function, index, &offset, &bytes);
    if (result == CUDA_ERROR_INVALID_VALUE) break;  // there are no more
    if (result != CUDA_SUCCESS) return result;
    if (index == kMostParameters) return CUDA_ERROR_NOT_SUPPORTED;
    places.push_back({low(offset), low(bytes)});
    function->parameter_bytes = std::max<uint64_t>(function->parameter_bytes, offset + bytes);
  }
  function->parameters = std::make_shared<const std::vector<ParameterPlace>>(std::move(places));
  const bool is_small = function->parameter_bytes <= forward_ring::kMostInlineBytes;
  return is_small ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult Functions::add(uint64_t module, CUfunction function, uint64_t* number) {
  Function entry{.function = function, .module = module};
  if (const CUresult result = read_parameters(&entry)) return result;
  const Bytes known = known_bytes(entry);
  if (!memory_.take_upload(known)) return CUDA_ERROR_OUT_OF_MEMORY;
  *number = table_.add(std::move(entry));
  if (*number != 0) return CUDA_SUCCESS;
  memory_.give_back_upload(known);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

void Functions::erase(uint64_t number) {
  const Function* function = table_.find(number);
  if (function == nullptr) return;
  memory_.give_back_upload(known_bytes(*function));
  table_.erase(number);
}

void Functions::name(const Call& call) {
  const auto chunk = static_cast<uint32_t>(call.arguments[1]);
  const Function* function = table_.find(call.arguments[0]);
  const char* name = nullptr;
  const CUresult result = function == nullptr ? CUDA_ERROR_INVALID_HANDLE
                                              : driver_->func_get_name(&name, function->function);
  size_t bytes = 0;
  if (result == CUDA_SUCCESS) {
    bytes = std::min(std::strlen(name), forward_ring::kChunkBytes);
    std::memcpy(pages_.chunk_bytes[chunk], name, bytes);
  }
  answers_.release_chunk(chunk, result);
  answers_.answer(call, result, {bytes});
}

void Functions::parameters(const Call& call) {
  const auto chunk = static_cast<uint32_t>(call.arguments[1]);
  const Function* function = table_.find(call.arguments[0]);
  const CUresult result = function == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
  size_t count = 0;
  if (function != nullptr && !function->parameters->empty()) {
    count = function->parameters->size();
    std::memcpy(pages_.chunk_bytes[chunk], function->parameters->data(),
                count * sizeof(ParameterPlace));
  }
  answers_.release_chunk(chunk, result);
  answers_.answer(call, result, {count});
}

CUresult Functions::ask(const Call& call, uint64_t* value) {
  const Function* known = table_.find(call.arguments[0]);
  if (known == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CUfunction function = known->function;
  const auto& a = call.arguments;
  const auto first = static_cast<int>(low(a[1])), second = static_cast<int>(low(a[2]));
  CUresult result = CUDA_SUCCESS;
  int number = 0;
  size_t bytes = 0;
  switch (static_cast<CallCode>(call.code)) {
    case CallCode::kFunctionAttribute:
      result =
          driver_->func_get_attribute(&number, static_cast<CUfunction_attribute>(first), function);
      *value = static_cast<uint32_t>(number);
      return result;
    case CallCode::kSetFunctionAttribute:
      return driver_->func_set_attribute(function, static_cast<CUfunction_attribute>(first),
                                         second);
    case CallCode::kSetCacheConfig:
      return driver_->func_set_cache_config(function, static_cast<CUfunc_cache>(first));
    case CallCode::kOccupancy:
      result = driver_->occupancy_max_active_blocks_per_multiprocessor_with_flags(
          &number, function, first, a[2], low(a[3]));
      *value = static_cast<uint32_t>(number);
      return result;
    case CallCode::kOccupancySharedMemory:
      result = driver_->occupancy_available_dynamic_shared_memory_per_block(&bytes, function, first,
                                                                            second);
      *value = bytes;
      return result;
    default:
      return CUDA_ERROR_UNKNOWN;
  }
}

CUresult Functions::launch(const Call& call, std::span<char> parameters) {
  const Function* function = table_.find(call.arguments[0]);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // As many bytes as the kernel itself takes: what lies where in them is its own layout's.
  if (parameters.size() != function->parameter_bytes) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = nullptr;
  if (const CUresult result = streams_.use(call.arguments[1], &stream)) return result;
  pointers_.clear();
  for (const auto& place : *function->parameters) {
    pointers_.push_back(parameters.data() + place.offset);
  }
  const auto* a = call.arguments;
  if (a[6] != 0) {
    return driver_->launch_cooperative_kernel(function->function, low(a[2]), high(a[2]), low(a[3]),
                                              high(a[3]), low(a[4]), high(a[4]), low(a[5]), stream,
                                              pointers_.data());
  }
  return driver_->launch_kernel(function->function, low(a[2]), high(a[2]), low(a[3]), high(a[3]),
                                low(a[4]), high(a[4]), low(a[5]), stream, pointers_.data(),
                                nullptr);
}

}  // namespace lambent::forward_server
