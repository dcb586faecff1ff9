// Gpu: a device, its context and kernels from bundles, as native handlers of these examples use it.
// Made by a handler's init and used from its one thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "gpu/bundle/bundle.h"
#include "gpu/cuda/device.h"
#include "gpu/cuda/driver.h"

namespace lambent::examples {

class Gpu {
 public:
  // `bundles` is the folder that holds the function's bundles.
  static Result<std::unique_ptr<Gpu>> open(const std::string& bundles) {
    ASSIGN_OR_RETURN(auto driver, cuda::Driver::load());
    ASSIGN_OR_RETURN(auto context, cuda::Context::create(*driver, 0));
    return std::unique_ptr<Gpu>(new Gpu(bundles, std::move(driver), std::move(context)));
  }

  // The kernel `name` of a bundle; its module stays loaded as long as the Gpu.
  Result<CUfunction> kernel(const std::string& bundle_name, const std::string& name) {
    ASSIGN_OR_RETURN(const auto bundle, bundle::Bundle::open(bundles_ + "/" + bundle_name));
    ASSIGN_OR_RETURN(const auto capability, context_.compute_capability());
    for (const auto& image : bundle.images_for(capability.first, capability.second)) {
      ASSIGN_OR_RETURN(const std::string bytes, read_file(image.path, kMostImageBytes));
      auto module = cuda::Module::load(*driver_, bytes);
      if (!module.ok() && module.error().code == ErrorCode::kFailedPrecondition) continue;
      if (!module.ok()) return module.error();
      ASSIGN_OR_RETURN(const std::string symbol, bundle.symbol_of(name, image));
      ASSIGN_OR_RETURN(const CUfunction function, module->function(symbol));
      modules_.push_back(std::move(*module));
      return function;
    }
    return Error{ErrorCode::kFailedPrecondition,
                 "bundle '" + bundle_name + "' has no image for this device"};
  }

  Result<cuda::DeviceBuffer> buffer(Bytes size) {
    return cuda::DeviceBuffer::allocate(*driver_, size);
  }
  template <typename T>
  Result<cuda::DeviceBuffer> buffer_with(const std::vector<T>& content) {
    ASSIGN_OR_RETURN(auto made, buffer(Bytes(content.size() * sizeof(T))));
    RETURN_IF_ERROR(made.write(std::as_bytes(std::span(content))));
    return made;
  }
  template <typename T>
  Result<std::vector<T>> read(const cuda::DeviceBuffer& buffer) {
    std::vector<T> content(buffer.size().count / sizeof(T));
    RETURN_IF_ERROR(buffer.read(std::as_writable_bytes(std::span(content))));
    return content;
  }

  // Launches with the parameters as they are: their types must be the kernel's.
  template <typename... Parameters>
  Result<void> launch(CUfunction function, cuda::Dimensions grid, cuda::Dimensions block,
                      unsigned shared_bytes, Parameters... parameters) {
    void* pointers[] = {&parameters...};
    return cuda::launch(*driver_, function, grid, block, shared_bytes, pointers);
  }
  Result<void> synchronize() { return context_.synchronize(); }

  Result<cuda::PinnedBuffer> pinned(Bytes size) {
    return cuda::PinnedBuffer::allocate(*driver_, size);
  }
  // In the order of the launches, and like them without waiting for it.
  Result<void> copy(const cuda::DeviceBuffer& device, const cuda::PinnedBuffer& host,
                    cuda::CopyDirection direction, Bytes size) {
    if (direction == cuda::CopyDirection::kToDevice) {
      return driver_->check(
          (*driver_)->memcpy_h_to_d_async(device.pointer(), host.pointer(), size.count, nullptr),
          "cuMemcpyHtoDAsync");
    }
    return driver_->check(
        (*driver_)->memcpy_d_to_h_async(host.pointer(), device.pointer(), size.count, nullptr),
        "cuMemcpyDtoHAsync");
  }
  Result<unsigned> multiprocessors() {
    int count = 0;
    RETURN_IF_ERROR(driver_->check(
        (*driver_)->device_get_attribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0),
        "cuDeviceGetAttribute"));
    return static_cast<unsigned>(count);
  }

  // Bytes a second between pinned host memory and the device, to it and back; by the device's
  // clock.
  Result<std::pair<double, double>> copy_speeds(Bytes size) {
    ASSIGN_OR_RETURN(auto device, buffer(size));
    ASSIGN_OR_RETURN(auto host, cuda::PinnedBuffer::allocate(*driver_, size));
    // The first time also pays for pages that nobody has touched.
    RETURN_IF_ERROR(device.timed_copy(host, cuda::CopyDirection::kToDevice));
    RETURN_IF_ERROR(device.timed_copy(host, cuda::CopyDirection::kToHost));
    ASSIGN_OR_RETURN(const double in_s, device.timed_copy(host, cuda::CopyDirection::kToDevice));
    ASSIGN_OR_RETURN(const double out_s, device.timed_copy(host, cuda::CopyDirection::kToHost));
    const auto bytes = static_cast<double>(size.count);
    return std::pair(bytes / in_s, bytes / out_s);
  }

 private:
  static constexpr size_t kMostImageBytes = 64 * 1024 * 1024;

  Gpu(std::string bundles, std::unique_ptr<cuda::Driver> driver, cuda::Context context)
      : bundles_(std::move(bundles)), driver_(std::move(driver)), context_(std::move(context)) {}

  std::string bundles_;
  std::unique_ptr<cuda::Driver> driver_;
  cuda::Context context_;
  std::vector<cuda::Module> modules_;
};

}  // namespace lambent::examples
