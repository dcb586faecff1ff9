#include "gpu/executor/kernel_cache.h"

#include <algorithm>
#include <vector>

#include "core/base/fd.h"

namespace lambent::executor {
namespace {

constexpr size_t kMostImageBytes = 256 * 1024 * 1024;
// What a kernel may have without being asked.
constexpr int kUsualSharedBytes = 48 * 1024;

std::string text_of(const std::vector<uint32_t>& sizes) {
  std::string text = "(";
  for (const uint32_t size : sizes) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + ")";
}

// A graph is validated against the manifest, and the driver reads what the compiled kernel takes:
// one with more parameters than its manifest says would be given what lies beside the arguments.
// Drivers before CUDA 12.4 do not tell.
Result<void> check_parameters(const cuda::Driver& driver, const bundle::Manifest& manifest,
                              const std::string& name, CUfunction function) {
  if (driver->func_get_param_info == nullptr) return {};
  const auto kernel =
      std::ranges::find_if(manifest.kernels, [&](const auto& each) { return each.name == name; });
  if (kernel == manifest.kernels.end()) return {};
  std::vector<uint32_t> compiled;
  size_t offset = 0;
  size_t size = 0;
  for (;;) {
    const CUresult found = driver->func_get_param_info(function, compiled.size(), &offset, &size);
    if (found == CUDA_ERROR_INVALID_VALUE) break;  // there are no more
    RETURN_IF_ERROR(driver.check(found, "cuFuncGetParamInfo"));
    compiled.push_back(static_cast<uint32_t>(size));
  }
  if (compiled == kernel->parameter_sizes) return {};
  return Error{ErrorCode::kDataLoss, "kernel bundle '" + manifest.name + "': the parameters of '" +
                                         name + "' have " + text_of(compiled) +
                                         " bytes, its manifest says " +
                                         text_of(kernel->parameter_sizes) + ": build it again"};
}

}  // namespace

Result<CUfunction> LoadedBundle::kernel(const cuda::Driver& driver, const std::string& name,
                                        uint32_t shared_bytes) const {
  ASSIGN_OR_RETURN(const std::string symbol, bundle_.symbol_of(name, image_));
  ASSIGN_OR_RETURN(const CUfunction function, module_.function(symbol));
  RETURN_IF_ERROR(check_parameters(driver, manifest(), name, function));
  const int wanted = static_cast<int>(shared_bytes);
  int most = kUsualSharedBytes;
  RETURN_IF_ERROR(driver.check(
      driver->func_get_attribute(&most, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function),
      "cuFuncGetAttribute"));
  if (wanted > most) {
    RETURN_IF_ERROR(driver.check(
        driver->func_set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                   wanted),
        name + " with " + std::to_string(wanted) + " bytes of shared memory: cuFuncSetAttribute"));
  }
  return function;
}

Result<std::shared_ptr<const LoadedBundle>> KernelCache::load(const std::string& folder,
                                                              const bundle::ReadFile& read,
                                                              bool modelled) {
  ASSIGN_OR_RETURN(auto bundle, bundle::Bundle::open(folder, read));
  Known& known = known_[{bundle.manifest().content_sha256, modelled}];
  known.last_use = ++clock_;
  if (known.bundle != nullptr) return known.bundle;

  Error last{ErrorCode::kFailedPrecondition, "it has no image for this device"};
  const std::string name = bundle.manifest().name;
  for (const auto& image : bundle.images_for(capability_.first, capability_.second)) {
    ASSIGN_OR_RETURN(const std::string bytes, read(image.path, kMostImageBytes));
    auto module = cuda::Module::load(driver_, bytes);
    if (module.ok()) {
      known.bundle =
          std::make_shared<const LoadedBundle>(std::move(bundle), image, std::move(*module));
      std::shared_ptr<const LoadedBundle> loaded = known.bundle;
      let_idle_ones_go();
      return loaded;
    }
    last = module.error();
    // Not for this driver: the next may be.
    if (last.code != ErrorCode::kFailedPrecondition) break;
  }
  known_.erase({bundle.manifest().content_sha256, modelled});
  return last.with_context("kernel bundle '" + name + "'");
}

void KernelCache::let_idle_ones_go() {
  for (;;) {
    size_t idle = 0;
    auto oldest = known_.end();
    for (auto each = known_.begin(); each != known_.end(); ++each) {
      if (each->second.bundle.use_count() > 1) continue;
      ++idle;
      if (oldest == known_.end() || each->second.last_use < oldest->second.last_use) oldest = each;
    }
    if (idle <= kMostIdleBundles) return;
    known_.erase(oldest);
  }
}

}  // namespace lambent::executor
