// KernelCache: the kernels of bundles, loaded into the device's context once, whatever the number
// of instances that use them. Of the one thread that loads instances.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/base/result.h"
#include "gpu/bundle/bundle.h"
#include "gpu/cuda/device.h"

namespace lambent::executor {

// Idle bundles stay while there are no more than this.
constexpr size_t kMostIdleBundles = 64;

class LoadedBundle {
 public:
  LoadedBundle(bundle::Bundle bundle, bundle::Bundle::Choice image, cuda::Module module)
      : bundle_(std::move(bundle)), image_(std::move(image)), module_(std::move(module)) {}

  const bundle::Manifest& manifest() const { return bundle_.manifest(); }
  // The kernel, able to have this much dynamic shared memory. NOT_FOUND lists those that there are;
  // DATA_LOSS: its parameters are not those of the manifest.
  Result<CUfunction> kernel(const cuda::Driver& driver, const std::string& name,
                            uint32_t shared_bytes) const;

 private:
  bundle::Bundle bundle_;
  bundle::Bundle::Choice image_;
  cuda::Module module_;
};

class KernelCache {
 public:
  // `capability` is the device's compute capability.
  KernelCache(const cuda::Driver& driver, std::pair<int, int> capability)
      : driver_(driver), capability_(capability) {}

  // The bundle in this folder, verified, its files read by `read`. Loads the first of its images
  // that the driver takes, unless a bundle of the same content is there already. NOT_FOUND
  // or DATA_LOSS if it is no sound bundle, FAILED_PRECONDITION if no image is for this device.
  // Shared: it stays loaded while an instance has it, and some longer. Images of the host whose
  // kernels are only timed are kept apart from those that are run.
  Result<std::shared_ptr<const LoadedBundle>> load(const std::string& folder,
                                                   const bundle::ReadFile& read, bool modelled);

 private:
  struct Known {
    std::shared_ptr<const LoadedBundle> bundle;
    uint64_t last_use = 0;
  };
  void let_idle_ones_go();

  const cuda::Driver& driver_;
  const std::pair<int, int> capability_;
  std::map<std::pair<std::string, bool>, Known> known_;  // by content hash, and whether modelled
  uint64_t clock_ = 0;
};

}  // namespace lambent::executor
