// Runs a kernel of a host module on the calling thread, block after block, as a driver would.
// Used by the tests of the kernels.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "gpu/cuda_abi/emulated_kernel.h"

namespace lambent {

class HostModule {
 public:
  explicit HostModule(const std::string& path)
      : library_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw std::runtime_error(dlerror());
  }
  HostModule(const HostModule&) = delete;
  ~HostModule() { dlclose(library_); }

  const emulated_kernel& kernel(const std::string& name) const {
    return *static_cast<const emulated_kernel*>(symbol(EMULATED_KERNEL_SYMBOL_PREFIX + name));
  }
  void* symbol(const std::string& name) const {
    void* found = dlsym(library_, name.c_str());
    if (found == nullptr) throw std::runtime_error("no symbol " + name);
    return found;
  }

 private:
  void* library_;
};

template <typename... Parameters>
void run_kernel(const emulated_kernel& kernel, emulated_dim3 grid, emulated_dim3 block,
                Parameters... parameters) {
  const emulated_launch launch = {grid, block, 0};
  void* pointers[] = {&parameters..., nullptr};
  for (uint32_t z = 0; z < grid.z; ++z) {
    for (uint32_t y = 0; y < grid.y; ++y) {
      for (uint32_t x = 0; x < grid.x; ++x) kernel.run_block(&launch, {x, y, z}, pointers);
    }
  }
}

}  // namespace lambent
