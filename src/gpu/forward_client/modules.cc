#include "gpu/forward_client/modules.h"

#include <cstdlib>
#include <cstring>

#include "gpu/cuda_abi/emulated_uuid.h"
#include "gpu/forward_client/files.h"
#include "gpu/forward_client/image_size.h"

namespace lambent::forward_client {

PlainMutex upload_mutex;

namespace {

using forward_ring::kChunkBytes;

// That a process says why an image was refused: one may try any number.
constexpr int kMostReasons = 16;
int g_reasons GUARDED_BY(upload_mutex) = 0;

// Where a program wants to read what the compiler had to say.
struct ErrorLog {
  char* buffer = nullptr;
  size_t room = 0;
  size_t size = 0;  // what was written
};

// What a program does not ask for is said where its own output is: the executor has another.
void say_reason(const char* text, size_t size) REQUIRES(upload_mutex) {
  char reason[2048];
  if (size == 0 || g_reasons == kMostReasons) return;
  ++g_reasons;
  if (size > sizeof(reason) - 1) size = sizeof(reason) - 1;
  std::memcpy(reason, text, size);
  reason[size] = '\0';
  say("a module was refused: ", reason);
}

CUresult load_uploaded(uint64_t context, uint64_t* number, ErrorLog* log) REQUIRES(upload_mutex) {
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
  } else if (result != CUDA_SUCCESS && values[1] <= kChunkBytes) {
    say_reason(chunk.bytes, values[1]);
  }
  give_back(chunk);
  return result;
}

CUresult upload_module(const void* image, size_t size, uint64_t context, uint64_t* number,
                       ErrorLog* log) {
  const PlainLock lock(upload_mutex);
  const CUresult result = upload(image, size);
  return result == CUDA_SUCCESS ? load_uploaded(context, number, log) : result;
}

bool is_emulated() { return cuda_abi::is_emulated_uuid(device().uuid); }

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
    result = upload_module(side.bytes, side.size, context_number, number, log);
    std::free(side.bytes);
  } else {
    result = upload_module(image.bytes, image.size, context_number, number, log);
  }
  if (result != CUDA_SUCCESS) return result;
  const StateLock lock;
  return state().modules.add(*number, {context_number, library}) ? CUDA_SUCCESS
                                                                 : CUDA_ERROR_OUT_OF_MEMORY;
}

// Of the options only the log of errors is followed; the information log stays empty.
constexpr unsigned kMostOption = 64;

}  // namespace

CUresult upload(const void* image, size_t size) {
  CUresult result = CUDA_SUCCESS;
  for (size_t at = 0; at < size && result == CUDA_SUCCESS;) {
    const size_t part = size - at < kChunkBytes ? size - at : kChunkBytes;
    Chunk chunk;
    result = take_chunk(&chunk);
    if (result != CUDA_SUCCESS) break;
    std::memcpy(chunk.bytes, static_cast<const char*>(image) + at, part);
    result = send_with_chunk(make_call(CallCode::kUpload, chunk.number, part), chunk);
    at += part;
  }
  return result;
}

CUresult load_image(const void* image, bool library, unsigned count, const CUjit_option* options,
                    void** values, uint64_t* number) {
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

CUresult find_global(uint64_t module, const char* name, CUdeviceptr* address, size_t* bytes) {
  const size_t length = std::strlen(name);
  if (length > lambent::forward_ring::kMostInlineBytes) return CUDA_ERROR_NOT_FOUND;
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

}  // namespace lambent::forward_client
