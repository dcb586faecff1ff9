#include "emulator/emulated_runtime/registry.h"

#include <set>

#include "gpu/cuda_abi/device_names.h"

namespace lambent::emulated_runtime {

Registry& Registry::get() {
  static auto* registry = new Registry;  // never destroyed: programs unregister at their very end
  return *registry;
}

Binary* Registry::add_binary(const void* image) {
  auto binary = std::make_shared<Binary>(image);
  const MutexLock lock(mutex_);
  return (binaries_[binary.get()] = binary).get();
}

void Registry::remove_binary(const Binary* binary) {
  // The program is ending or unloads a library. Its image stays loaded in the driver, where work
  // may still be queued; the names go.
  const MutexLock lock(mutex_);
  std::erase_if(kernels_, [&](auto& entry) { return entry.second->binary.get() == binary; });
  std::erase_if(variables_, [&](auto& entry) { return entry.second->binary.get() == binary; });
  binaries_.erase(binary);
}

std::shared_ptr<Binary> Registry::owned(const Binary* binary) const {
  auto it = binaries_.find(binary);
  return it == binaries_.end() ? nullptr : it->second;
}

void Registry::add_kernel(const Binary* binary, const void* host_function, const char* name) {
  const MutexLock lock(mutex_);
  auto owner = owned(binary);
  if (!owner || !name) return;
  auto kernel = std::make_shared<RegisteredKernel>();
  kernel->binary = std::move(owner);
  kernel->name = cuda_abi::name_in_host_code(name);
  kernels_[host_function] = std::move(kernel);
}

void Registry::add_variable(const Binary* binary, const void* host_address, const char* name) {
  const MutexLock lock(mutex_);
  auto owner = owned(binary);
  if (!owner || !name) return;
  variables_[host_address] = std::make_shared<RegisteredVariable>(
      RegisteredVariable{std::move(owner), cuda_abi::name_in_host_code(name), false});
}

void Registry::add_managed(const Binary* binary, void** pointer, const char* name) {
  const MutexLock lock(mutex_);
  auto owner = owned(binary);
  if (!owner || !name) return;
  {
    const MutexLock owner_lock(owner->mutex);
    owner->managed.push_back({pointer, cuda_abi::name_in_host_code(name)});
  }
  variables_[pointer] = std::make_shared<RegisteredVariable>(
      RegisteredVariable{owner, cuda_abi::name_in_host_code(name), true});
}

cudaError_t Registry::load(const Driver& driver, Binary& binary, CUlibrary* library) {
  const MutexLock lock(binary.mutex);
  if (!binary.library && !binary.load_error) {
    binary.load_error = error_of(driver.library_load_data(&binary.library, binary.image, nullptr,
                                                          nullptr, 0, nullptr, nullptr, 0));
  }
  *library = binary.library;
  return binary.load_error;
}

cudaError_t Registry::find_kernel(const Driver& driver, const void* host_function,
                                  CUkernel* kernel) {
  std::shared_ptr<RegisteredKernel> registered;
  {
    const MutexLock lock(mutex_);
    auto it = kernels_.find(host_function);
    if (it == kernels_.end()) return cudaErrorInvalidDeviceFunction;
    registered = it->second;
  }
  if ((*kernel = registered->kernel)) return cudaSuccess;
  CUlibrary library;
  if (cudaError_t error = load(driver, *registered->binary, &library)) return error;
  CUresult result = driver.library_get_kernel(kernel, library, registered->name.c_str());
  if (result == CUDA_ERROR_NOT_FOUND) {
    log_refusal(registered->name.c_str(), "no host code was built for this kernel");
    return cudaErrorInvalidDeviceFunction;
  }
  if (result == CUDA_SUCCESS) registered->kernel = *kernel;
  return error_of(result);
}

cudaError_t Registry::find_variable(const Driver& driver, const void* host_address,
                                    CUdeviceptr* address, size_t* bytes) {
  std::shared_ptr<RegisteredVariable> variable;
  {
    const MutexLock lock(mutex_);
    auto it = variables_.find(host_address);
    if (it == variables_.end()) return cudaErrorInvalidSymbol;
    variable = it->second;
  }
  CUlibrary library;
  if (cudaError_t error = load(driver, *variable->binary, &library)) return error;
  CUresult result =
      variable->managed
          ? driver.library_get_managed(address, bytes, library, variable->name.c_str())
          : driver.library_get_global(address, bytes, library, variable->name.c_str());
  return result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : error_of(result);
}

const void* Registry::host_function(const char* name) const {
  const MutexLock lock(mutex_);
  for (const auto& [host_function, kernel] : kernels_) {
    if (kernel->name == name) return host_function;
  }
  return nullptr;
}

cudaError_t Registry::prepare_managed(const Driver& driver, const Binary* given) {
  std::shared_ptr<Binary> binary;
  {
    const MutexLock lock(mutex_);
    binary = owned(given);
  }
  if (!binary) return cudaErrorInvalidResourceHandle;
  if (binary->managed_ready) return cudaSuccess;
  std::vector<Binary::Managed> variables;
  {
    const MutexLock lock(binary->mutex);
    variables = binary->managed;
  }
  CUlibrary library = nullptr;
  if (!variables.empty()) {
    if (cudaError_t error = load(driver, *binary, &library)) return error;
  }
  for (const Binary::Managed& variable : variables) {
    CUdeviceptr address = 0;
    size_t bytes = 0;
    CUresult result = driver.library_get_managed(&address, &bytes, library, variable.name.c_str());
    if (result) {
      log_refusal(variable.name.c_str(), "no host code was built for this managed variable");
      return error_of(result);
    }
    *variable.pointer = reinterpret_cast<void*>(address);
  }
  binary->managed_ready = true;
  return cudaSuccess;
}

void Registry::forget_ended(const Driver& driver) {
  const MutexLock lock(mutex_);
  std::set<const Binary*> ended;
  for (const auto& [handle, binary] : binaries_) {
    const MutexLock binary_lock(binary->mutex);
    unsigned kernels = 0;
    if (!binary->library ||
        driver.library_get_kernel_count(&kernels, binary->library) == CUDA_SUCCESS) {
      continue;
    }
    binary->library = nullptr;
    ended.insert(handle);
  }
  for (const auto& [host_function, kernel] : kernels_) {
    if (ended.contains(kernel->binary.get())) kernel->kernel = nullptr;
  }
}

cudaError_t kernel_of(const Driver& driver, const void* function, CUkernel* kernel) {
  if (!function) return cudaErrorInvalidDeviceFunction;
  cudaError_t error = Registry::get().find_kernel(driver, function, kernel);
  if (error != cudaErrorInvalidDeviceFunction) return error;
  // Handles that the program got from a library of its own are good too; the driver knows its own.
  const char* name = nullptr;
  auto handle = reinterpret_cast<CUkernel>(const_cast<void*>(function));
  if (driver.kernel_get_name(&name, handle) != CUDA_SUCCESS) return error;
  *kernel = handle;
  return cudaSuccess;
}

cudaError_t function_of(const Driver& driver, const void* function, CUfunction* out) {
  CUkernel kernel;
  if (cudaError_t error = kernel_of(driver, function, &kernel)) return error;
  return error_of(driver.kernel_get_function(out, kernel));
}

cudaError_t symbol_range(const Driver& driver, const void* symbol, size_t bytes, size_t offset,
                         char** begin) {
  CUdeviceptr address = 0;
  size_t size = 0;
  if (cudaError_t error = Registry::get().find_variable(driver, symbol, &address, &size)) {
    return error;
  }
  if (offset > size || bytes > size - offset) return cudaErrorInvalidValue;
  *begin = reinterpret_cast<char*>(address + offset);
  return cudaSuccess;
}

}  // namespace lambent::emulated_runtime
