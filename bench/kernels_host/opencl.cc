#include "bench/kernels_host/opencl.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace lambent::bench {
namespace {

// Values of OpenCL's interface.
constexpr uint64_t kAnyDevice = 0xFFFFFFFF;
constexpr uint32_t kDeviceName = 0x102B;
constexpr uint32_t kBuildLog = 0x1183;
constexpr uint64_t kCopyHostPointer = 1 << 5;
constexpr uint64_t kReadWrite = 1;

template <typename Function>
Function found(void* library, const char* name) {
  auto* function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) {
    std::fprintf(stderr, "OpenCL has no %s\n", name);
    std::exit(1);
  }
  return function;
}

}  // namespace

void OpenCl::check(int result, const char* what) {
  if (result == 0) return;
  std::fprintf(stderr, "%s: OpenCL error %d\n", what, result);
  std::exit(1);
}

bool OpenCl::open(std::string* why_not) {
  library_ = dlopen("libOpenCL.so.1", RTLD_NOW);
  if (library_ == nullptr) {
    *why_not = "no libOpenCL.so.1";
    return false;
  }
  void* platform = nullptr;
  uint32_t platforms = 0, devices = 0;
  const auto platform_ids =
      found<int (*)(uint32_t, void**, uint32_t*)>(library_, "clGetPlatformIDs");
  const auto device_ids =
      found<int (*)(void*, uint64_t, uint32_t, void**, uint32_t*)>(library_, "clGetDeviceIDs");
  if (platform_ids(1, &platform, &platforms) != 0 || platforms == 0 ||
      device_ids(platform, kAnyDevice, 1, &device_, &devices) != 0 || devices == 0) {
    *why_not = "no OpenCL device (Debian: pocl-opencl-icd)";
    return false;
  }
  char name[256] = "";
  found<int (*)(void*, uint32_t, size_t, void*, size_t*)>(library_, "clGetDeviceInfo")(
      device_, kDeviceName, sizeof name - 1, name, nullptr);
  device_name_ = name;
  int error = 0;
  context_ = found<void* (*)(const intptr_t*, uint32_t, void**, void*, void*, int*)>(
      library_, "clCreateContext")(nullptr, 1, &device_, nullptr, nullptr, &error);
  check(error, "create a context");
  queue_ = found<void* (*)(void*, void*, uint64_t, int*)>(library_, "clCreateCommandQueue")(
      context_, device_, 0, &error);
  check(error, "create a queue");
  return true;
}

void OpenCl::build(const std::string& source) {
  int error = 0;
  const char* text = source.c_str();
  program_ = found<void* (*)(void*, uint32_t, const char**, const size_t*, int*)>(
      library_, "clCreateProgramWithSource")(context_, 1, &text, nullptr, &error);
  check(error, "create a program");
  const int built = found<int (*)(void*, uint32_t, void**, const char*, void*, void*)>(
      library_, "clBuildProgram")(program_, 1, &device_, "", nullptr, nullptr);
  if (built == 0) return;
  std::vector<char> log(1 << 16);
  found<int (*)(void*, void*, uint32_t, size_t, void*, size_t*)>(library_, "clGetProgramBuildInfo")(
      program_, device_, kBuildLog, log.size() - 1, log.data(), nullptr);
  std::fprintf(stderr, "%s\n", log.data());
  check(built, "build the program");
}

OpenCl::Buffer OpenCl::buffer(size_t bytes, const void* contents) {
  int error = 0;
  void* handle = found<void* (*)(void*, uint64_t, size_t, void*, int*)>(library_, "clCreateBuffer")(
      context_, kReadWrite | kCopyHostPointer, bytes, const_cast<void*>(contents), &error);
  check(error, "create a buffer");
  return {handle, bytes};
}

std::vector<char> OpenCl::read(const Buffer& buffer) {
  std::vector<char> contents(buffer.bytes);
  check(found<int (*)(void*, void*, uint32_t, size_t, size_t, void*, uint32_t, const void*, void*)>(
            library_, "clEnqueueReadBuffer")(queue_, buffer.handle, 1, 0, buffer.bytes,
                                             contents.data(), 0, nullptr, nullptr),
        "read a buffer");
  return contents;
}

void OpenCl::run(const std::string& kernel, const std::vector<Argument>& arguments,
                 const size_t (&global)[2], const size_t (&local)[2]) {
  int error = 0;
  void* handle = found<void* (*)(void*, const char*, int*)>(library_, "clCreateKernel")(
      program_, kernel.c_str(), &error);
  check(error, "create a kernel");
  for (uint32_t i = 0; i < arguments.size(); ++i) {
    check(found<int (*)(void*, uint32_t, size_t, const void*)>(library_, "clSetKernelArg")(
              handle, i, arguments[i].bytes, arguments[i].value),
          "set an argument");
  }
  check(found<int (*)(void*, void*, uint32_t, const size_t*, const size_t*, const size_t*, uint32_t,
                      const void*, void*)>(library_, "clEnqueueNDRangeKernel")(
            queue_, handle, 2, nullptr, global, local, 0, nullptr, nullptr),
        "launch");
  check(found<int (*)(void*)>(library_, "clFinish")(queue_), "wait");
  found<int (*)(void*)>(library_, "clReleaseKernel")(handle);
}

}  // namespace lambent::bench
