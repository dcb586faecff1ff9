// Modules, libraries, their functions and variables. A library is a module of the current context,
// and its kernels are functions: there is only one context that they could be in.
#include <pthread.h>

#include <cstdlib>
#include <cstring>

#include "forwarded_cuda/api.h"
#include "forwarded_cuda/files.h"
#include "forwarded_cuda/image_size.h"

using namespace lambent::forwarded_cuda;

namespace {

using lambent::forwarding::kChunkBytes;
using lambent::forwarding::ParameterPlace;

// Where a program wants to read what the compiler had to say.
struct ErrorLog {
  char* buffer = nullptr;
  size_t room = 0;
  size_t size = 0;  // what was written
};

CUresult load_uploaded(uint64_t context, uint64_t* number, ErrorLog* log) {
  Chunk chunk;
  if (const CUresult result = take_chunk(&chunk)) return result;
  uint64_t values[2] = {};
  const CUresult result =
      ask_with_chunk(make_call(CallCode::kLoadModule, context, chunk.number), chunk, values, 2);
  *number = values[0];
  if (log->buffer != nullptr && log->room > 0 && values[1] <= kChunkBytes) {
    log->size = values[1] < log->room - 1 ? values[1] : log->room - 1;
    std::memcpy(log->buffer, chunk.bytes, log->size);
    log->buffer[log->size] = '\0';
  }
  give_back(chunk);
  return result;
}

CUresult upload(const void* image, size_t size, uint64_t context, uint64_t* number, ErrorLog* log) {
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&state().upload_mutex);
  for (size_t at = 0; at < size && result == CUDA_SUCCESS;) {
    const size_t part = size - at < kChunkBytes ? size - at : kChunkBytes;
    Chunk chunk;
    result = take_chunk(&chunk);
    if (result != CUDA_SUCCESS) break;
    std::memcpy(chunk.bytes, static_cast<const char*>(image) + at, part);
    result = send_with_chunk(make_call(CallCode::kUpload, chunk.number, part), chunk);
    at += part;
  }
  if (result == CUDA_SUCCESS) result = load_uploaded(context, number, log);
  pthread_mutex_unlock(&state().upload_mutex);
  return result;
}

bool is_emulated() { return std::strstr(device().name, "Emulated") != nullptr; }

CUresult load(const void* bytes, bool library, uint64_t* number, ErrorLog* log) {
  uint64_t context_number = 0;
  {
    WITH_CONTEXT();
    context_number = context->number;
  }
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Image image = find_image(bytes);
  if (image.size == 0 || !is_mapped(image.bytes, image.size)) return CUDA_ERROR_INVALID_IMAGE;
  FileContent side;
  CUresult result = CUDA_SUCCESS;
  if (image.is_gpu_code && is_emulated() && read_side_code(bytes, &side)) {
    result = upload(side.bytes, side.size, context_number, number, log);
    std::free(side.bytes);
  } else {
    result = upload(image.bytes, image.size, context_number, number, log);
  }
  if (result != CUDA_SUCCESS) return result;
  const StateLock lock;
  return state().modules.add(*number, {context_number, library}) ? CUDA_SUCCESS
                                                                 : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult load_file(const char* path, bool library, uint64_t* number) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = require_context()) return result;
  FileContent content;
  if (const CUresult result = read_whole_file(path, &content)) return result;
  ErrorLog log;
  const CUresult result = load(content.bytes, library, number, &log);
  std::free(content.bytes);
  return result;
}

CUresult check_module(uint64_t number, bool library) {
  WITH_CONTEXT();
  const ModuleRecord* found = state().modules.find(number);
  return found != nullptr && found->library == library ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult unload(uint64_t number, bool library) {
  if (const CUresult result = check_module(number, library)) return result;
  {
    const StateLock lock;
    state().functions.erase_if([&](uint64_t, FunctionRecord& each) {
      if (each.module != number) return false;
      std::free(each.parameters);
      return true;
    });
    state().device_ranges.erase_if([&](const Range& each) { return each.owner == number; });
    state().modules.erase(number);
  }
  return ask(make_call(CallCode::kUnloadModule, number));
}

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

CUresult find_function(uint64_t module, const char* name, uint64_t* number) {
  const size_t length = std::strlen(name);
  if (length > lambent::forwarding::kMostInlineBytes) return CUDA_ERROR_NOT_FOUND;
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

CUresult find_global(uint64_t module, const char* name, CUdeviceptr* address, size_t* bytes) {
  const size_t length = std::strlen(name);
  if (length > lambent::forwarding::kMostInlineBytes) return CUDA_ERROR_NOT_FOUND;
  uint64_t values[2] = {};
  const CUresult result = ask(make_call(CallCode::kFindGlobal, module), values, 2, {name, length});
  if (result != CUDA_SUCCESS) return result;
  if (address != nullptr) *address = values[0];
  if (bytes != nullptr) *bytes = values[1];
  const StateLock lock;
  const ModuleRecord* record = state().modules.find(module);
  const Range* known = state().device_ranges.find(values[0]);
  if (record != nullptr && known == nullptr) {
    state().device_ranges.add(
        {values[0], values[1], record->context, module, 0, ++state().last_id});
  }
  return CUDA_SUCCESS;
}

CUresult function_count(uint64_t module, uint64_t* count, uint64_t* numbers, size_t most) {
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

// The functions of a list are found again by name, which brings all that is to be known of them.
template <typename Handle>
CUresult enumerate(uint64_t module, Handle* handles, unsigned most, uint64_t bits) {
  uint64_t count = 0;
  auto* numbers = static_cast<uint64_t*>(std::calloc(most, sizeof(uint64_t)));
  if (numbers == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = function_count(module, &count, numbers, most);
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
    if (result == CUDA_SUCCESS) handles[i] = handle_for<Handle>(numbers[i], bits);
  }
  std::free(numbers);
  return result;
}

CUresult copy_record(uint64_t function, FunctionRecord* record) {
  WITH_CONTEXT();
  const FunctionRecord* found = state().functions.find(function);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *record = *found;
  return CUDA_SUCCESS;
}

CUresult get_attribute(uint64_t function, CUfunction_attribute attribute, int* value) {
  FunctionRecord record;
  if (const CUresult result = copy_record(function, &record)) return result;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t answer = 0;
  const CUresult result =
      ask(make_call(CallCode::kFunctionAttribute, function, static_cast<uint64_t>(attribute)),
          &answer, 1);
  *value = static_cast<int>(answer);
  return result;
}

CUresult set_attribute(uint64_t function, CUfunction_attribute attribute, int value) {
  FunctionRecord record;
  if (const CUresult result = copy_record(function, &record)) return result;
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

CUresult set_cache(uint64_t function, CUfunc_cache config) {
  FunctionRecord record;
  if (const CUresult result = copy_record(function, &record)) return result;
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

// Of the options only the log of errors is followed; the information log stays empty.
constexpr unsigned kMostOption = 64;

CUresult load_with_options(const void* image, bool library, unsigned count,
                           const CUjit_option* options, void** values, uint64_t* number) {
  if (count > 0 && (options == nullptr || values == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  ErrorLog log;
  for (unsigned i = 0; i < count; ++i) {
    if (static_cast<unsigned>(options[i]) > kMostOption) return CUDA_ERROR_INVALID_VALUE;
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) log.buffer = static_cast<char*>(values[i]);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
      log.room = reinterpret_cast<size_t>(values[i]) & UINT32_MAX;
    }
  }
  const CUresult result = load(image, library, number, &log);
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES) values[i] = nullptr;
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
      values[i] = reinterpret_cast<void*>(log.size);
    }
  }
  return result;
}

}  // namespace

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int count,
                            CUjit_option* options, void** values) {
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t number = 0;
  if (const CUresult result = load_with_options(image, false, count, options, values, &number)) {
    return result;
  }
  *module = handle_for<CUmodule>(number);
  return CUDA_SUCCESS;
}
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}
CUresult cuModuleLoad(CUmodule* module, const char* path) {
  uint64_t number = 0;
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = load_file(path, false, &number)) return result;
  *module = handle_for<CUmodule>(number);
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule module) { return unload(number_of(module), false); }

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t number = 0;
  {
    WITH_CONTEXT();
    if (state().modules.find(number_of(module)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  }
  if (const CUresult result = find_function(number_of(module), name, &number)) return result;
  *function = handle_for<CUfunction>(number);
  return CUDA_SUCCESS;
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule module,
                              const char* name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  {
    WITH_CONTEXT();
    if (state().modules.find(number_of(module)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  }
  return find_global(number_of(module), name, address, bytes);
}
CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule module) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  {
    WITH_CONTEXT();
    if (state().modules.find(number_of(module)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  }
  uint64_t all = 0;
  const CUresult result = function_count(number_of(module), &all, nullptr, 0);
  *count = static_cast<unsigned>(all);
  return result;
}
CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned int most, CUmodule module) {
  if (functions == nullptr || most == 0) return CUDA_ERROR_INVALID_VALUE;
  {
    WITH_CONTEXT();
    if (state().modules.find(number_of(module)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  }
  return enumerate(number_of(module), functions, most, 0);
}
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_EAGER_LOADING;
  return connection_state();
}

CUresult cuLibraryLoadData(CUlibrary* library, const void* image, CUjit_option* options,
                           void** values, unsigned int count, CUlibraryOption*, void**,
                           unsigned int) {
  if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t number = 0;
  if (const CUresult result = load_with_options(image, true, count, options, values, &number)) {
    return result;
  }
  *library = handle_for<CUlibrary>(number, kLibraryBit);
  return CUDA_SUCCESS;
}
CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option*, void**,
                               unsigned int, CUlibraryOption*, void**, unsigned int) {
  uint64_t number = 0;
  if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = load_file(path, true, &number)) return result;
  *library = handle_for<CUlibrary>(number, kLibraryBit);
  return CUDA_SUCCESS;
}
CUresult cuLibraryUnload(CUlibrary library) { return unload(number_of(library), true); }
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  if (kernel == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check_module(number_of(library), true)) return result;
  uint64_t number = 0;
  if (const CUresult result = find_function(number_of(library), name, &number)) return result;
  *kernel = handle_for<CUkernel>(number, kKernelBit);
  return CUDA_SUCCESS;
}
CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check_module(number_of(library), true)) return result;
  *module = handle_for<CUmodule>(number_of(library));
  return CUDA_SUCCESS;
}
CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary library,
                            const char* name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check_module(number_of(library), true)) return result;
  return find_global(number_of(library), name, address, bytes);
}
// There is no managed memory.
CUresult cuLibraryGetManaged(CUdeviceptr*, size_t*, CUlibrary library, const char*) {
  if (const CUresult result = check_module(number_of(library), true)) return result;
  return CUDA_ERROR_NOT_FOUND;
}
CUresult cuLibraryGetUnifiedFunction(void**, CUlibrary library, const char*) {
  if (const CUresult result = check_module(number_of(library), true)) return result;
  return CUDA_ERROR_NOT_FOUND;
}
CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary library) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check_module(number_of(library), true)) return result;
  uint64_t all = 0;
  const CUresult result = function_count(number_of(library), &all, nullptr, 0);
  *count = static_cast<unsigned>(all);
  return result;
}
CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int most, CUlibrary library) {
  if (kernels == nullptr || most == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check_module(number_of(library), true)) return result;
  return enumerate(number_of(library), kernels, most, kKernelBit);
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  FunctionRecord record;
  if (const CUresult result = copy_record(number_of(kernel), &record)) return result;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *function = handle_for<CUfunction>(number_of(kernel));
  return CUDA_SUCCESS;
}
CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return name_of_function(number_of(kernel), name);
}
CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel kernel) {
  FunctionRecord record;
  if (const CUresult result = copy_record(number_of(kernel), &record)) return result;
  if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *library = handle_for<CUlibrary>(record.module, kLibraryBit);
  return CUDA_SUCCESS;
}
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* bytes) {
  return parameter_info(number_of(kernel), index, offset, bytes);
}
CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel,
                              CUdevice device_number) {
  if (device_number != 0) return CUDA_ERROR_INVALID_DEVICE;
  return get_attribute(number_of(kernel), attribute, value);
}
CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                              CUdevice device_number) {
  if (device_number != 0) return CUDA_ERROR_INVALID_DEVICE;
  return set_attribute(number_of(kernel), attribute, value);
}
CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device_number) {
  if (device_number != 0) return CUDA_ERROR_INVALID_DEVICE;
  return set_cache(number_of(kernel), config);
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return get_attribute(number_of(function), attribute, value);
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return set_attribute(number_of(function), attribute, value);
}
CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
  return set_cache(number_of(function), config);
}
CUresult cuFuncGetModule(CUmodule* module, CUfunction function) {
  FunctionRecord record;
  if (const CUresult result = copy_record(number_of(function), &record)) return result;
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *module = handle_for<CUmodule>(record.module);
  return CUDA_SUCCESS;
}
CUresult cuFuncGetName(const char** name, CUfunction function) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return name_of_function(number_of(function), name);
}
CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* bytes) {
  return parameter_info(number_of(function), index, offset, bytes);
}
CUresult cuFuncIsLoaded(CUfunctionLoadingState* loading, CUfunction function) {
  FunctionRecord record;
  if (const CUresult result = copy_record(number_of(function), &record)) return result;
  if (loading == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *loading = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}
CUresult cuFuncLoad(CUfunction function) {
  FunctionRecord record;
  return copy_record(number_of(function), &record);
}
