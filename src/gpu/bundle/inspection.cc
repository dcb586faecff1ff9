#include "gpu/bundle/inspection.h"

#include <dlfcn.h>

#include <algorithm>

#include "core/base/fd.h"
#include "gpu/bundle/elf_module.h"
#include "gpu/cuda_abi/emulated_kernel.h"

namespace lambent::bundle {
namespace {

constexpr size_t kMostModuleBytes = 256 * 1024 * 1024;

}  // namespace

Result<std::vector<Kernel>> inspect_host_module(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string bytes, read_file(path, kMostModuleBytes));
  ASSIGN_OR_RETURN(auto names, symbols_with_prefix(bytes, EMULATED_KERNEL_SYMBOL_PREFIX));
  std::sort(names.begin(), names.end());
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error{ErrorCode::kInvalidArgument, std::string("load the host module: ") + dlerror()};
  }
  std::vector<Kernel> kernels;
  for (const auto& name : names) {
    const std::string symbol = EMULATED_KERNEL_SYMBOL_PREFIX + name;
    const auto* found = static_cast<const emulated_kernel*>(dlsym(library, symbol.c_str()));
    if (found == nullptr || found->abi_version < EMULATED_KERNEL_ABI_VERSION ||
        found->abi_version > EMULATED_KERNEL_ABI_LAUNCHES) {
      return Error{ErrorCode::kInvalidArgument, "kernel '" + name + "' has a foreign ABI version"};
    }
    const auto* expression =
        static_cast<const char* const*>(dlsym(library, ("kernel_expression_" + name).c_str()));
    Kernel kernel;
    kernel.name = name;
    kernel.expression = expression == nullptr ? name : *expression;
    kernel.parameter_sizes.assign(found->parameter_sizes,
                                  found->parameter_sizes + found->parameter_count);
    kernel.static_shared_bytes = found->static_shared_bytes;
    kernel.max_threads = found->max_threads_per_block;
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace lambent::bundle
