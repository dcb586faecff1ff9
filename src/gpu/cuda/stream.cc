#include "gpu/cuda/stream.h"

namespace lambent::cuda {

Result<Event> Event::create(const Driver& driver) {
  CUevent event = nullptr;
  RETURN_IF_ERROR(
      driver.check(driver->event_create(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
  return Event(&driver, event);
}

Event::~Event() {
  if (event_ != nullptr) (*driver_)->event_destroy(event_);
}

Result<void> Event::synchronize() const {
  return driver_->check((*driver_)->event_synchronize(event_), "cuEventSynchronize");
}

Result<Stream> Stream::create(const Driver& driver) {
  CUstream stream = nullptr;
  RETURN_IF_ERROR(
      driver.check(driver->stream_create(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  return Stream(&driver, stream);
}

Result<Stream> Stream::create(const Driver& driver, const GreenContext& context) {
  CUstream stream = nullptr;
  RETURN_IF_ERROR(driver.check(
      driver->green_ctx_stream_create(&stream, context.get(), CU_STREAM_NON_BLOCKING, 0),
      "cuGreenCtxStreamCreate"));
  return Stream(&driver, stream);
}

Stream::~Stream() {
  if (stream_ != nullptr) (*driver_)->stream_destroy(stream_);
}

Result<void> Stream::copy_to_device(CUdeviceptr to, const void* from, Bytes size) const {
  return driver_->check((*driver_)->memcpy_h_to_d_async(to, from, size.count, stream_),
                        "cuMemcpyHtoDAsync");
}

Result<void> Stream::copy_to_host(void* to, CUdeviceptr from, Bytes size) const {
  return driver_->check((*driver_)->memcpy_d_to_h_async(to, from, size.count, stream_),
                        "cuMemcpyDtoHAsync");
}

Result<void> Stream::copy_on_device(CUdeviceptr to, CUdeviceptr from, Bytes size) const {
  return driver_->check((*driver_)->memcpy_d_to_d_async(to, from, size.count, stream_),
                        "cuMemcpyDtoDAsync");
}

Result<void> Stream::zero(CUdeviceptr to, Bytes size) const {
  return driver_->check((*driver_)->memset_d8_async(to, 0, size.count, stream_), "cuMemsetD8Async");
}

Result<void> Stream::record(const Event& event) const {
  return driver_->check((*driver_)->event_record(event.get(), stream_), "cuEventRecord");
}

Result<void> Stream::wait_for(const Event& event) const {
  return driver_->check((*driver_)->stream_wait_event(stream_, event.get(), 0),
                        "cuStreamWaitEvent");
}

Result<void> Stream::call_back(CUstreamCallback callback, void* user_data) const {
  return driver_->check((*driver_)->stream_add_callback(stream_, callback, user_data, 0),
                        "cuStreamAddCallback");
}

Result<void> Stream::synchronize() const {
  return driver_->check((*driver_)->stream_synchronize(stream_), "cuStreamSynchronize");
}

Result<bool> Stream::is_idle() const {
  const CUresult result = (*driver_)->stream_query(stream_);
  if (result == CUDA_ERROR_NOT_READY) return false;
  RETURN_IF_ERROR(driver_->check(result, "cuStreamQuery"));
  return true;
}

}  // namespace lambent::cuda
