#include "emulator/emulated_cuda/user_objects.h"

#include "emulator/emulated_cuda/threads.h"

namespace lambent::emulated_cuda {

UserObject::~UserObject() {
  start_thread([destroy = destroy_, object = object_] { destroy(object); });
}

}  // namespace lambent::emulated_cuda
