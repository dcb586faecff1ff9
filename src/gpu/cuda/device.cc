#include "gpu/cuda/device.h"

namespace lambent::cuda {

Result<Context> Context::create(const Driver& driver, int ordinal) {
  CUdevice device = 0;
  RETURN_IF_ERROR(driver.check(driver->device_get(&device, ordinal), "cuDeviceGet"));
  CUcontext context = nullptr;
  RETURN_IF_ERROR(driver.check(driver->device_primary_ctx_retain(&context, device),
                               "cuDevicePrimaryCtxRetain"));
  Context owner(&driver, device, context);
  RETURN_IF_ERROR(owner.enter());
  return owner;
}

Result<void> Context::enter() const {
  return driver_->check((*driver_)->ctx_set_current(context_), "cuCtxSetCurrent");
}

Context::~Context() {
  if (driver_ != nullptr) (*driver_)->device_primary_ctx_release(device_);
}

Result<std::pair<int, int>> Context::compute_capability() const {
  const Driver& driver = *driver_;
  int major = 0, minor = 0;
  RETURN_IF_ERROR(driver.check(
      driver->device_get_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device_),
      "cuDeviceGetAttribute"));
  RETURN_IF_ERROR(driver.check(
      driver->device_get_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device_),
      "cuDeviceGetAttribute"));
  return std::pair(major, minor);
}

Result<void> Context::synchronize() const {
  return driver_->check((*driver_)->ctx_synchronize(), "cuCtxSynchronize");
}

Result<std::vector<uint32_t>> peers_of(const Driver& driver, int ordinal) {
  int count = 0;
  CUdevice own = 0;
  RETURN_IF_ERROR(driver.check(driver->device_get_count(&count), "cuDeviceGetCount"));
  RETURN_IF_ERROR(driver.check(driver->device_get(&own, ordinal), "cuDeviceGet"));
  std::vector<uint32_t> peers;
  for (int other = 0; other < count; ++other) {
    CUdevice device = 0;
    int can = 0;
    if (other == ordinal) continue;
    RETURN_IF_ERROR(driver.check(driver->device_get(&device, other), "cuDeviceGet"));
    RETURN_IF_ERROR(
        driver.check(driver->device_can_access_peer(&can, own, device), "cuDeviceCanAccessPeer"));
    if (can != 0) peers.push_back(static_cast<uint32_t>(other));
  }
  return peers;
}

Result<DeviceBuffer> DeviceBuffer::allocate(const Driver& driver, Bytes size) {
  CUdeviceptr pointer = 0;
  RETURN_IF_ERROR(
      driver.check(driver->mem_alloc(&pointer, size.count), "cuMemAlloc of " + to_string(size)));
  return DeviceBuffer(&driver, pointer, size);
}

DeviceBuffer::~DeviceBuffer() {
  if (driver_ != nullptr) (*driver_)->mem_free(pointer_);
}

Result<void> DeviceBuffer::write(std::span<const std::byte> content) {
  if (content.size() > size_.count) {
    return Error{ErrorCode::kOutOfRange, "a copy is larger than its device buffer"};
  }
  return driver_->check((*driver_)->memcpy_h_to_d(pointer_, content.data(), content.size()),
                        "cuMemcpyHtoD");
}

Result<void> DeviceBuffer::read(std::span<std::byte> content) const {
  if (content.size() > size_.count) {
    return Error{ErrorCode::kOutOfRange, "a copy is larger than its device buffer"};
  }
  return driver_->check((*driver_)->memcpy_d_to_h(content.data(), pointer_, content.size()),
                        "cuMemcpyDtoH");
}

Result<void> DeviceBuffer::fill(unsigned char value) {
  return driver_->check((*driver_)->memset_d8(pointer_, value, size_.count), "cuMemsetD8");
}

namespace {

// A pair of events around what is done between them; destroyed with it.
class Stopwatch {
 public:
  explicit Stopwatch(const Driver& driver) : driver_(driver) {}
  ~Stopwatch() {
    for (CUevent event : {begin_, end_}) {
      if (event != nullptr) driver_->event_destroy(event);
    }
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  Result<void> start() {
    for (CUevent* event : {&begin_, &end_}) {
      RETURN_IF_ERROR(driver_.check(driver_->event_create(event, 0), "cuEventCreate"));
    }
    return driver_.check(driver_->event_record(begin_, nullptr), "cuEventRecord");
  }
  Result<double> stop() {
    RETURN_IF_ERROR(driver_.check(driver_->event_record(end_, nullptr), "cuEventRecord"));
    RETURN_IF_ERROR(driver_.check(driver_->event_synchronize(end_), "cuEventSynchronize"));
    float milliseconds = 0;
    RETURN_IF_ERROR(driver_.check(driver_->event_elapsed_time(&milliseconds, begin_, end_),
                                  "cuEventElapsedTime"));
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  const Driver& driver_;
  CUevent begin_ = nullptr, end_ = nullptr;
};

}  // namespace

Result<double> DeviceBuffer::timed_copy(const PinnedBuffer& host, CopyDirection direction) {
  const size_t bytes = std::min(size_.count, host.size().count);
  Stopwatch stopwatch(*driver_);
  RETURN_IF_ERROR(stopwatch.start());
  RETURN_IF_ERROR(direction == CopyDirection::kToDevice
                      ? driver_->check((*driver_)->memcpy_h_to_d_async(pointer_, host.pointer(),
                                                                       bytes, nullptr),
                                       "cuMemcpyHtoDAsync")
                      : driver_->check((*driver_)->memcpy_d_to_h_async(host.pointer(), pointer_,
                                                                       bytes, nullptr),
                                       "cuMemcpyDtoHAsync"));
  return stopwatch.stop();
}

Result<PinnedBuffer> PinnedBuffer::allocate(const Driver& driver, Bytes size) {
  void* pointer = nullptr;
  RETURN_IF_ERROR(driver.check(driver->mem_alloc_host(&pointer, size.count), "cuMemAllocHost"));
  return PinnedBuffer(&driver, pointer, size);
}

PinnedBuffer::~PinnedBuffer() {
  if (driver_ != nullptr) (*driver_)->mem_free_host(pointer_);
}

Result<Module> Module::load(const Driver& driver, const std::string& image) {
  CUmodule module = nullptr;
  RETURN_IF_ERROR(
      driver.check(driver->module_load_data(&module, image.c_str()), "cuModuleLoadData"));
  return Module(&driver, module);
}

Module::~Module() {
  if (driver_ != nullptr) (*driver_)->module_unload(module_);
}

Result<CUfunction> Module::function(const std::string& symbol) const {
  CUfunction function = nullptr;
  const CUresult result = (*driver_)->module_get_function(&function, module_, symbol.c_str());
  RETURN_IF_ERROR(driver_->check(result, "cuModuleGetFunction of " + symbol));
  return function;
}

Result<void> launch(const Driver& driver, CUfunction function, Dimensions grid, Dimensions block,
                    unsigned shared_bytes, std::span<void* const> parameters) {
  return driver.check(
      driver->launch_kernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                            shared_bytes, nullptr, const_cast<void**>(parameters.data()), nullptr),
      "cuLaunchKernel");
}

}  // namespace lambent::cuda
