// The driver shim's own facts: where the real driver is, and what calls return without one.
#include "gpu/shim/real_library.h"

namespace lambent::shim {
namespace {

constexpr const char* kUsualPaths[] = {
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    "/usr/lib64/libcuda.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
    "/usr/lib/libcuda.so.1",
    "/usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.1",  // Debian's, where no link leads to it
    nullptr,
};
constexpr int kNoDevice = 100;      // CUDA_ERROR_NO_DEVICE
constexpr int kNotSupported = 801;  // CUDA_ERROR_NOT_SUPPORTED

}  // namespace

const RealLibrary kRealLibrary = {real_driver_path, kUsualPaths, kNoDevice, kNotSupported};

}  // namespace lambent::shim
