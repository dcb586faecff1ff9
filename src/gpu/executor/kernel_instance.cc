#include "gpu/executor/kernel_instance.h"

#include <algorithm>

namespace lambent::executor {

bool KernelInstance::has_constant(const DeviceName& name) const {
  return loaded != nullptr &&
         std::any_of(loaded->constants.begin(), loaded->constants.end(),
                     [&](const Constant& constant) { return constant.name == name; });
}

std::vector<DeviceName> KernelInstance::own_buffers() const {
  std::vector<DeviceName> names = {DeviceName::of(id, DeviceName::kTemporaries)};
  for (uint32_t i = 0; i < loaded->graph.buffers.size(); ++i) {
    if (loaded->graph.buffers[i].role == kernel_graph::BufferRole::kConstant) continue;
    names.push_back(DeviceName::of(id, i));
    names.push_back(DeviceName::of(id, i | kCopiedOutput));
  }
  return names;
}

}  // namespace lambent::executor
