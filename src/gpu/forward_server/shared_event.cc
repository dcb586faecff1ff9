#include "gpu/forward_server/shared_event.h"

#include "core/base/check.h"

namespace lambent::forward_server {
namespace {

struct DestroyEvent {
  const cuda::Driver* driver;
  Quota* quota = nullptr;  // of which it takes one, besides what its handle takes

  void operator()(CUevent event) const {
    (*driver)->event_destroy(event);
    if (quota != nullptr) quota->give_back();
  }
};

}  // namespace

CUresult make_event(const cuda::Driver& driver, unsigned flags, SharedEvent* event) {
  CUevent made = nullptr;
  const CUresult result = driver->event_create(&made, flags);
  if (result != CUDA_SUCCESS) return result;
  *event = SharedEvent(made, DestroyEvent{&driver});
  return CUDA_SUCCESS;
}

void keep_counted(const SharedEvent& event, Quota& quota) {
  auto* destroy = std::get_deleter<DestroyEvent>(event);
  CHECK(destroy != nullptr && destroy->quota == nullptr, "an event with its only handle");
  if (event.use_count() == 1) return;
  quota.take_anyway();
  destroy->quota = &quota;
}

}  // namespace lambent::forward_server
