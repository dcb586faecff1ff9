#include "gpu/forward_client/functions.h"

#include <cstdlib>
#include <cstring>

namespace lambent::forward_client {
namespace {

using forward_ring::kChunkBytes;
using forward_ring::ParameterPlace;

// What the executor says of a function that we meet for the first time.
CUresult learn_function(uint64_t module, uint64_t function, const uint64_t* attributes,
                        uint32_t parameters, uint32_t parameter_bytes) {
  FunctionRecord record{};
  record.module = module;
  record.parameter_count = parameters;
  record.parameter_bytes = parameter_bytes;
  for (int i = 0; i < CU_FUNC_ATTRIBUTE_MAX; ++i) {
    record.attributes[i] = static_cast<int>(attributes[i]);
  }
  if (parameters > 0) {
    Chunk chunk;
    if (const CUresult result = take_chunk(&chunk)) return result;
    uint64_t count = 0;
    const CUresult result = ask_with_chunk(
        make_call(CallCode::kFunctionParameters, function, chunk.number), chunk, &count, 1);
    if (result == CUDA_SUCCESS && count == parameters &&
        count <= kChunkBytes / sizeof(ParameterPlace)) {
      record.parameters = static_cast<ParameterPlace*>(std::malloc(count * sizeof(ParameterPlace)));
      if (record.parameters != nullptr) {
        std::memcpy(record.parameters, chunk.bytes, count * sizeof(ParameterPlace));
      }
    }
    give_back(chunk);
    if (record.parameters == nullptr) return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
    // Launches copy by these places.
    for (uint32_t i = 0; i < parameters; ++i) {
      const ParameterPlace& place = record.parameters[i];
      if (uint64_t{place.offset} + place.bytes <= parameter_bytes) continue;
      std::free(record.parameters);
      return CUDA_ERROR_UNKNOWN;
    }
  }
  const StateLock lock;
  if (state().functions.find(function) != nullptr) {
    std::free(record.parameters);
    return CUDA_SUCCESS;
  }
  return state().functions.add(function, record) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace

CUresult find_function(uint64_t module, const char* name, uint64_t* number) {
  const size_t length = std::strlen(name);
  if (length > lambent::forward_ring::kMostInlineBytes) return CUDA_ERROR_NOT_FOUND;
  uint64_t values[3 + CU_FUNC_ATTRIBUTE_MAX] = {};
  const CUresult result = ask(make_call(CallCode::kFindFunction, module), values,
                              3 + CU_FUNC_ATTRIBUTE_MAX, {name, length});
  if (result != CUDA_SUCCESS) return result;
  *number = values[0];
  {
    const StateLock lock;
    if (state().functions.find(*number) != nullptr) return CUDA_SUCCESS;
  }
  return learn_function(module, *number, values + 3, static_cast<uint32_t>(values[1]),
                        static_cast<uint32_t>(values[2]));
}

CUresult list_functions(uint64_t module, uint64_t* count, uint64_t* numbers, size_t most) {
  Chunk chunk;
  if (const CUresult result = take_chunk(&chunk)) return result;
  const CUresult result =
      ask_with_chunk(make_call(CallCode::kListFunctions, module, chunk.number), chunk, count, 1);
  if (result == CUDA_SUCCESS && numbers != nullptr) {
    if (*count > kChunkBytes / sizeof(uint64_t)) *count = 0;
    const size_t given = *count < most ? *count : most;
    std::memcpy(numbers, chunk.bytes, given * sizeof(uint64_t));
  }
  give_back(chunk);
  return result;
}

CUresult name_of_function(uint64_t function, const char** name) {
  {
    WITH_CONTEXT();
    FunctionRecord* record = state().functions.find(function);
    if (record == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (record->name != nullptr) {
      *name = record->name;
      return CUDA_SUCCESS;
    }
  }
  Chunk chunk;
  if (const CUresult result = take_chunk(&chunk)) return result;
  uint64_t length = 0;
  CUresult result =
      ask_with_chunk(make_call(CallCode::kFunctionName, function, chunk.number), chunk, &length, 1);
  char* text = nullptr;
  if (result == CUDA_SUCCESS && length <= kChunkBytes) {
    text = static_cast<char*>(std::malloc(length + 1));
    if (text != nullptr) {
      std::memcpy(text, chunk.bytes, length);
      text[length] = '\0';
    }
  }
  give_back(chunk);
  if (text == nullptr) return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
  const StateLock lock;
  FunctionRecord* record = state().functions.find(function);
  if (record != nullptr) record->name = text;
  *name = text;  // it may be in use from now on, and stays
  return CUDA_SUCCESS;
}

CUresult enumerate_functions(uint64_t module, void* handles, unsigned most, uint64_t bits) {
  // Each is found again by name, which brings all that is to be known of it.
  uint64_t count = 0;
  auto* numbers = static_cast<uint64_t*>(std::calloc(most, sizeof(uint64_t)));
  if (numbers == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = list_functions(module, &count, numbers, most);
  for (unsigned i = 0; i < most && i < count && result == CUDA_SUCCESS; ++i) {
    bool known = false;
    {
      const StateLock lock;
      known = state().functions.find(numbers[i]) != nullptr;
      const FunctionRecord unnamed{};
      // Known by number for now, so that it can be asked for its name.
      if (!known && !state().functions.add(numbers[i], unnamed)) result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!known && result == CUDA_SUCCESS) {
      const char* name = nullptr;
      result = name_of_function(numbers[i], &name);
      {
        const StateLock lock;
        state().functions.erase(numbers[i]);
      }
      uint64_t number = 0;
      if (result == CUDA_SUCCESS) result = find_function(module, name, &number);
    }
    if (result == CUDA_SUCCESS) {
      const auto handle = handle_for<void*>(numbers[i], bits);
      std::memcpy(static_cast<char*>(handles) + i * sizeof(handle), &handle, sizeof(handle));
    }
  }
  std::free(numbers);
  return result;
}

CUresult copy_function_record(uint64_t function, FunctionRecord* record) {
  WITH_CONTEXT();
  const FunctionRecord* found = state().functions.find(function);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *record = *found;
  return CUDA_SUCCESS;
}

CUresult get_function_attribute(uint64_t function, CUfunction_attribute attribute, int* value) {
  FunctionRecord record;
  if (const CUresult result = copy_function_record(function, &record)) return result;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t answer = 0;
  const CUresult result =
      ask(make_call(CallCode::kFunctionAttribute, function, static_cast<uint64_t>(attribute)),
          &answer, 1);
  *value = static_cast<int>(answer);
  return result;
}

CUresult set_function_attribute(uint64_t function, CUfunction_attribute attribute, int value) {
  FunctionRecord record;
  if (const CUresult result = copy_function_record(function, &record)) return result;
  const CUresult result =
      ask(make_call(CallCode::kSetFunctionAttribute, function, static_cast<uint64_t>(attribute),
                    static_cast<uint64_t>(static_cast<int64_t>(value))));
  // Launches are checked against what is kept here.
  const StateLock lock;
  FunctionRecord* kept = state().functions.find(function);
  if (result == CUDA_SUCCESS && kept != nullptr &&
      static_cast<unsigned>(attribute) < CU_FUNC_ATTRIBUTE_MAX) {
    kept->attributes[attribute] = value;
  }
  return result;
}

CUresult set_function_cache(uint64_t function, CUfunc_cache config) {
  FunctionRecord record;
  if (const CUresult result = copy_function_record(function, &record)) return result;
  return ask(make_call(CallCode::kSetCacheConfig, function, static_cast<uint64_t>(config)));
}

CUresult parameter_info(uint64_t function, size_t index, size_t* offset, size_t* bytes) {
  WITH_CONTEXT();
  const FunctionRecord* found = state().functions.find(function);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (offset == nullptr || index >= found->parameter_count) return CUDA_ERROR_INVALID_VALUE;
  *offset = found->parameters[index].offset;
  if (bytes != nullptr) *bytes = found->parameters[index].bytes;
  return CUDA_SUCCESS;
}

}  // namespace lambent::forward_client
