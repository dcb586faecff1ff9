// The first way to launch a kernel: the function itself remembers the shape and the parameters.
#include <cstring>

#include "core/base/mutex.h"
#include "emulator/emulated_cuda/api.h"

using namespace lambent::emulated_cuda;

namespace {

constexpr unsigned kMostParameterBytes = 4096;

struct LegacyLaunch {
  std::weak_ptr<Function> function;  // whose handle this is; gone with its module
  unsigned block[3] = {0, 0, 0};     // unset until the program sets it
  unsigned shared_bytes = 0;
  std::vector<unsigned char> parameters;
};

lambent::Mutex g_mutex;

std::unordered_map<const void*, LegacyLaunch>& launches() REQUIRES(g_mutex) {
  static auto* all = new std::unordered_map<const void*, LegacyLaunch>;  // outlives main
  return *all;
}

template <class Change>
CUresult with_function(CUfunction handle, Change change) {
  WITH_PROCESS();
  auto function = find_function(*process, handle);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  const lambent::MutexLock lock(g_mutex);
  LegacyLaunch& launch = launches()[handle];
  if (launch.function.lock() != function) launch = {function};
  return change(launch);
}

CUresult put(CUfunction handle, int offset, const void* value, unsigned bytes) {
  if (!value || offset < 0 || bytes > kMostParameterBytes ||
      static_cast<unsigned>(offset) > kMostParameterBytes - bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return with_function(handle, [&](LegacyLaunch& launch) {
    if (launch.parameters.size() < offset + bytes) launch.parameters.resize(offset + bytes);
    std::memcpy(launch.parameters.data() + offset, value, bytes);
    return CUDA_SUCCESS;
  });
}

CUresult launch(CUfunction handle, int width, int height, CUstream stream) {
  LegacyLaunch now;
  if (CUresult result = with_function(handle, [&](LegacyLaunch& launch) {
        now = launch;
        return CUDA_SUCCESS;
      })) {
    return result;
  }
  if (width < 1 || height < 1 || now.block[0] == 0) return CUDA_ERROR_INVALID_VALUE;
  size_t bytes = now.parameters.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, now.parameters.data(),
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  return cuLaunchKernel(handle, static_cast<unsigned>(width), static_cast<unsigned>(height), 1,
                        now.block[0], now.block[1], now.block[2], now.shared_bytes, stream, nullptr,
                        bytes ? extra : nullptr);
}

}  // namespace

CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z) {
  if (x < 1 || y < 1 || z < 1) return CUDA_ERROR_INVALID_VALUE;
  return with_function(function, [&](LegacyLaunch& launch) {
    launch.block[0] = static_cast<unsigned>(x);
    launch.block[1] = static_cast<unsigned>(y);
    launch.block[2] = static_cast<unsigned>(z);
    return CUDA_SUCCESS;
  });
}
CUresult cuFuncSetSharedSize(CUfunction function, unsigned int bytes) {
  return with_function(function, [&](LegacyLaunch& launch) {
    launch.shared_bytes = bytes;
    return CUDA_SUCCESS;
  });
}
CUresult cuParamSetSize(CUfunction function, unsigned int bytes) {
  if (bytes > kMostParameterBytes) return CUDA_ERROR_INVALID_VALUE;
  return with_function(function, [&](LegacyLaunch& launch) {
    launch.parameters.resize(bytes);
    return CUDA_SUCCESS;
  });
}
CUresult cuParamSeti(CUfunction function, int offset, unsigned int value) {
  return put(function, offset, &value, sizeof value);
}
CUresult cuParamSetf(CUfunction function, int offset, float value) {
  return put(function, offset, &value, sizeof value);
}
CUresult cuParamSetv(CUfunction function, int offset, void* value, unsigned int bytes) {
  return put(function, offset, value, bytes);
}
CUresult cuLaunch(CUfunction function) { return launch(function, 1, 1, CU_STREAM_LEGACY); }
CUresult cuLaunchGrid(CUfunction function, int width, int height) {
  return launch(function, width, height, CU_STREAM_LEGACY);
}
CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream) {
  return launch(function, width, height, stream);
}
