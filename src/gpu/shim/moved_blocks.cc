#include "gpu/shim/moved_blocks.h"

#include "driver_slots.h"

namespace lambent::shim {

ContextOf::ContextOf(Blocks& blocks, Device device, Handle context) : device_(device) {
  for (const device_memory::Block& block : blocks) {
    if (block.owner.device == device && block.context != nullptr) context = block.context;
  }
  if (context == nullptr) {
    const auto retain = REAL(cuDevicePrimaryCtxRetain, Handle*, Device);
    is_retained_ = retain(&context, device) == kSuccess;
  }
  is_pushed_ = REAL(cuCtxPushCurrent_v2, Handle)(context) == kSuccess;
}

ContextOf::~ContextOf() {
  Handle popped = nullptr;
  if (is_pushed_) REAL(cuCtxPopCurrent_v2, Handle*)(&popped);
  if (is_retained_) REAL(cuDevicePrimaryCtxRelease_v2, Device)(device_);
}

}  // namespace lambent::shim
