#include "gpu/stage_channel/device_copy.h"

#include <cstdlib>

#include "gpu/stage_channel/driver.h"

namespace lambent::stage_channel {
namespace {

CUstream stream_of(void* stream) { return static_cast<CUstream>(stream); }
CUevent event_of(void* event) { return static_cast<CUevent>(event); }

}  // namespace

DeviceCopier::~DeviceCopier() {
  if (driver_ == nullptr) return;
  // The end may be closed by another thread than the one that made the copies.
  CUcontext before = nullptr;
  driver_->ctx_get_current(&before);
  if (driver_->ctx_set_current(static_cast<CUcontext>(context_)) == CUDA_SUCCESS) {
    abandon();
    for (void* event : events_) {
      if (event != nullptr) driver_->event_destroy(event_of(event));
    }
    if (ordered_ != nullptr) driver_->event_destroy(event_of(ordered_));
    if (stream_ != nullptr) driver_->stream_destroy(stream_of(stream_));
    const uint64_t blocks = file_.geometry().blocks_per_slot();
    for (uint64_t i = 0; is_locked_ != nullptr && i < blocks * file_.geometry().slots; ++i) {
      if (is_locked_[i] == 0) continue;
      driver_->mem_host_unregister(file_.data(i / blocks) + i % blocks * kBlockBytes);
    }
    driver_->ctx_set_current(before);
  }
  std::free(is_locked_);
}

Status DeviceCopier::failed(const char* call, int code, ErrorText& error) {
  const char* name = nullptr;
  driver_->get_error_name(static_cast<CUresult>(code), &name);
  error.set("%s failed: %s (%d)", call, name != nullptr ? name : "an unknown code", code);
  return Status::kDevice;
}

Status DeviceCopier::prepare(ErrorText& error) {
  const Driver* found = stage_channel::driver();
  if (found == nullptr) {
    error.set("cannot copy from or to a device: there is no CUDA driver (libcuda.so.1)");
    return Status::kDevice;
  }
  CUcontext context = nullptr;
  const CUresult asked = found->ctx_get_current(&context);
  if (asked != CUDA_SUCCESS || context == nullptr) {
    error.set("cannot copy from or to a device: this thread has no CUDA context");
    return Status::kDevice;
  }
  if (driver_ != nullptr && context_ == context) return Status::kDone;
  if (driver_ != nullptr) {
    error.set("this thread's CUDA context is another than that of the channel's first copy");
    return Status::kInvalid;
  }
  const Geometry& geometry = file_.geometry();
  is_locked_ = static_cast<char*>(std::calloc(geometry.slots, geometry.blocks_per_slot()));
  if (is_locked_ == nullptr) {
    error.set("no memory for the list of page-locked blocks");
    return Status::kSystem;
  }
  driver_ = found;
  context_ = context;
  CUstream stream = nullptr;
  if (CUresult result = driver_->stream_create(&stream, CU_STREAM_NON_BLOCKING)) {
    return failed("cuStreamCreate", result, error);
  }
  stream_ = stream;
  for (uint32_t i = 0; i <= kMostUnderWay; ++i) {
    CUevent event = nullptr;
    if (CUresult result = driver_->event_create(&event, CU_EVENT_DISABLE_TIMING)) {
      return failed("cuEventCreate", result, error);
    }
    (i == kMostUnderWay ? ordered_ : events_[i]) = event;
  }
  return Status::kDone;
}

Status DeviceCopier::follow(uint64_t stream, ErrorText& error) {
  if (Status status = prepare(error); status != Status::kDone) return status;
  if (stream_ == nullptr || ordered_ == nullptr) {
    error.set("the channel has no stream: its first copy failed");
    return Status::kDevice;
  }
  if (stream == kNoStream) return Status::kDone;
  CUresult result = driver_->event_record(event_of(ordered_), reinterpret_cast<CUstream>(stream));
  if (result != CUDA_SUCCESS) return failed("cuEventRecord", result, error);
  result = driver_->stream_wait_event(stream_of(stream_), event_of(ordered_), 0);
  if (result != CUDA_SUCCESS) return failed("cuStreamWaitEvent", result, error);
  return Status::kDone;
}

void DeviceCopier::lock_block(uint64_t slot, uint64_t offset) {
  const Geometry& geometry = file_.geometry();
  const uint64_t block = offset / kBlockBytes;
  char& is_locked = is_locked_[slot * geometry.blocks_per_slot() + block];
  if (is_locked != 0 || !locks_) return;
  // The whole block, for the next values; the file ends on a multiple of it.
  char* begin = file_.data(slot) + block * kBlockBytes;
  if (CUresult result =
          driver_->mem_host_register(begin, kBlockBytes, CU_MEMHOSTREGISTER_PORTABLE)) {
    locks_ = false;
    failed("cuMemHostRegister", result, note_);
    return;
  }
  is_locked = 1;
}

Status DeviceCopier::after_begin(ErrorText& error) {
  CUevent event = event_of(events_[begun_ % kMostUnderWay]);
  if (CUresult result = driver_->event_record(event, stream_of(stream_))) {
    return failed("cuEventRecord", result, error);
  }
  ++begun_;
  return Status::kDone;
}

Status DeviceCopier::begin_to_host(uint64_t slot, uint64_t offset, uint64_t device, size_t bytes,
                                   ErrorText& error) {
  lock_block(slot, offset);
  char* host = file_.data(slot) + offset;
  if (CUresult result = driver_->copy_to_host(host, device, bytes, stream_of(stream_))) {
    return failed("cuMemcpyDtoHAsync", result, error);
  }
  return after_begin(error);
}

Status DeviceCopier::begin_to_device(uint64_t slot, uint64_t offset, uint64_t device, size_t bytes,
                                     ErrorText& error) {
  lock_block(slot, offset);
  const char* host = file_.data(slot) + offset;
  if (CUresult result = driver_->copy_to_device(device, host, bytes, stream_of(stream_))) {
    return failed("cuMemcpyHtoDAsync", result, error);
  }
  return after_begin(error);
}

Status DeviceCopier::wait_for_oldest(ErrorText& error) {
  CUevent event = event_of(events_[ended_ % kMostUnderWay]);
  if (CUresult result = driver_->event_synchronize(event)) {
    return failed("cuEventSynchronize", result, error);
  }
  ++ended_;
  return Status::kDone;
}

void DeviceCopier::abandon() {
  if (stream_ != nullptr) driver_->stream_synchronize(stream_of(stream_));
  ended_ = begun_;
}

}  // namespace lambent::stage_channel
