#include "emulator/emulated_cuda/modules.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "emulator/emulated_cuda/process.h"
#include "emulator/emulated_cuda/ptx_compiler.h"
#include "emulator/emulated_cuda/ptx_image.h"

namespace lambent::emulated_cuda {

namespace {

constexpr uint64_t kModuleGranularity_bytes = 64 * 1024;

const char* name_of(ImageKind kind) {
  switch (kind) {
    case ImageKind::kCubin:
      return "module image (cubin)";
    default:
      return "module image (fat binary)";
  }
}

CUresult side_modules(Process& process, const void* image, ImageKind kind, Image* out,
                      std::string* reason) {
  std::vector<std::string> notes;
  *out = process.side_modules.find(process.settings.kernels, image, &notes);
  for (const std::string& note : notes) log_refusal("host code for GPU images", note.c_str());
  if (!out->empty()) return CUDA_SUCCESS;
  *reason =
      "GPU code cannot run here, and there is no host code for it: build that from the same source "
      "with `lambent-bundle host FILE.cu -o PROGRAM.kernels.so`, which is found beside the program "
      "or through EMULATED_CUDA_KERNELS";
  log_refusal(name_of(kind), reason->c_str());
  return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

// The part of the module that defines a name, loaded; -1 if none does.
template <class Defines>
CUresult part_with(Module& module, Defines defines, int* part) REQUIRES(module.mutex) {
  *part = -1;
  for (size_t i = 0; i < module.image.size(); i++) {
    if (!defines(*module.image[i])) continue;
    *part = static_cast<int>(i);
    if (module.parts[i]) return CUDA_SUCCESS;
    auto loaded = std::make_unique<HostModule>();
    std::string error;
    if (!loaded->load(*module.image[i], &error)) {
      log_refusal("module image (host ELF)", error.c_str());
      return CUDA_ERROR_INVALID_IMAGE;
    }
    module.parts[i] = std::move(loaded);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

// An image of one's own is loaded at once, so that what is wrong with it is told now; of the side
// modules, those are loaded from which something is used.
CUresult prepare_parts(Module& module) {
  const MutexLock lock(module.mutex);
  module.parts.resize(module.image.size());
  if (module.image.size() != 1) return CUDA_SUCCESS;
  int part;
  return part_with(
      module, [](const HostCode&) { return true; }, &part);
}

}  // namespace

CUresult read_image(Process& process, const void* image, size_t available, Image* out,
                    std::string* reason) {
  if (!image) return CUDA_ERROR_INVALID_VALUE;
  *reason = "this is no module image";
  if (available != 0 && available < 64) return CUDA_ERROR_INVALID_IMAGE;
  ImageKind kind = image_kind(image);
  if (kind == ImageKind::kPtx) {
    const std::string text = ptx_text(image, available);
    *out = side_modules_of(process, image, ptx_kernels(text));
    return out->empty() ? compile_image({text}, JitOptions(), out, reason) : CUDA_SUCCESS;
  }
  if (kind == ImageKind::kUnknown) return CUDA_ERROR_INVALID_IMAGE;
  if (kind != ImageKind::kHostElf) return side_modules(process, image, kind, out, reason);
  size_t bytes = elf_image_bytes(image);
  if (bytes == 0 || (available != 0 && bytes > available)) return CUDA_ERROR_INVALID_IMAGE;
  auto code = HostCode::copy(image, bytes, reason);
  if (!code) {
    log_refusal("module image (host ELF)", reason->c_str());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *out = {std::move(code)};
  return CUDA_SUCCESS;
}

CUresult read_image_file(Process& process, const char* path, Image* out, std::string* reason) {
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    *reason = "cannot read the file";
    return CUDA_ERROR_FILE_NOT_FOUND;
  }
  std::vector<char> image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  size_t bytes = image.size();
  if (bytes < 64) image.resize(64);
  // Text may be shorter than any header.
  if (bytes > 0 && image_kind(image.data()) == ImageKind::kPtx) bytes = image.size();
  return read_image(process, image.data(), std::max<size_t>(bytes, 1), out, reason);
}

CUresult load_module(Process& process, Context* context, int device, Image image, bool of_library,
                     std::shared_ptr<Module>* out) {
  uint64_t bytes = 0;
  for (const auto& code : image) bytes += code->bytes().size();
  uint64_t counted =
      (bytes + kModuleGranularity_bytes - 1) / kModuleGranularity_bytes * kModuleGranularity_bytes;
  if (!process.claim_bytes(device, counted)) return CUDA_ERROR_OUT_OF_MEMORY;
  auto module = std::make_shared<Module>();
  module->context = context;
  module->device = device;
  module->of_library = of_library;
  module->image = std::move(image);
  module->counted_bytes = counted;
  if (CUresult result = prepare_parts(*module)) {
    process.uncount_bytes(device, counted);
    return result;
  }
  process.node->spend(process.spec(device).module_load_ns);
  process.modules.insert(module);
  *out = std::move(module);
  return CUDA_SUCCESS;
}

void unload_module(Process& process, const std::shared_ptr<Module>& module) {
  // Kernels of it may still be queued.
  for (const auto& context : process.contexts.all()) {
    if (!module->context || context.get() == module->context) synchronize(*context);
  }
  if (!process.modules.remove(module.get())) return;
  process.functions.remove_if([&](Function& f) { return f.module == module.get(); });
  {
    const MutexLock lock(module->mutex);
    for (uintptr_t variable : module->variables) process.memory.forget_module(variable);
  }
  process.uncount_bytes(module->device, module->counted_bytes);
}

CUresult get_function(Process& process, Module& module, const char* name, Function** out) {
  if (!out || !name || !*name) return CUDA_ERROR_INVALID_VALUE;
  const MutexLock lock(module.mutex);
  auto it = module.functions.find(name);
  if (it == module.functions.end()) {
    int part;
    auto defines = [&](const HostCode& code) { return code.has_kernel(name); };
    if (CUresult result = part_with(module, defines, &part)) return result;
    bool bad = false;
    const emulated_kernel* kernel = module.parts[part]->kernel(name, &bad);
    if (bad) {
      log_refusal(name, "the kernel was built for another version of emulated_kernel.h");
      return CUDA_ERROR_INVALID_IMAGE;
    }
    if (!kernel) return CUDA_ERROR_NOT_FOUND;
    int shared = process.spec(module.device).shared_bytes_per_block -
                 static_cast<int>(kernel->static_shared_bytes);
    auto function =
        std::make_shared<Function>(Function{&module, name, kernel, std::max(0, shared)});
    process.functions.insert(function);
    it = module.functions.emplace(name, std::move(function)).first;
  }
  *out = it->second.get();
  return CUDA_SUCCESS;
}

CUresult get_variable(Process& process, Module& module, const char* name, bool managed_only,
                      CUdeviceptr* address, size_t* bytes) {
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  const MutexLock lock(module.mutex);
  int part;
  const ElfSymbol* symbol = nullptr;
  auto defines = [&](const HostCode& code) {
    symbol = code.find(name);
    return symbol && symbol->object && (symbol->managed || !managed_only);
  };
  if (CUresult result = part_with(module, defines, &part)) return result;
  void* found = module.parts[part]->variable(name);
  if (!found) return CUDA_ERROR_NOT_FOUND;
  auto base = reinterpret_cast<uintptr_t>(found);
  if (process.memory.add(base, symbol->bytes, MemoryKind::kModule, 0, module.device,
                         module.context)) {
    module.variables.push_back(base);
  }
  if (address) *address = base;
  if (bytes) *bytes = symbol->bytes;
  return CUDA_SUCCESS;
}

std::vector<std::string> kernel_names(const Image& image) {
  std::set<std::string> names;
  for (const auto& code : image) {
    for (std::string& name : code->kernels()) names.insert(std::move(name));
  }
  return {names.begin(), names.end()};
}

CUresult instance_of(Process& process, Library& library, Context& context,
                     std::shared_ptr<Module>* out) {
  const MutexLock lock(library.mutex);
  std::weak_ptr<Module>& instance = library.instances[library.shared_instance ? 0 : context.id];
  if ((*out = instance.lock())) return CUDA_SUCCESS;
  CUresult result = load_module(process, library.shared_instance ? nullptr : &context,
                                context.device, library.image, true, out);
  if (result == CUDA_SUCCESS) instance = *out;
  return result;
}

CUresult get_kernel(Process& process, const std::shared_ptr<Library>& library, const char* name,
                    Kernel** out) {
  if (!out || !name || !*name) return CUDA_ERROR_INVALID_VALUE;
  bool exists = std::any_of(library->image.begin(), library->image.end(),
                            [&](const auto& code) { return code->has_kernel(name); });
  if (!exists) return CUDA_ERROR_NOT_FOUND;
  const MutexLock lock(library->mutex);
  std::shared_ptr<Kernel>& kernel = library->kernels[name];
  if (!kernel) {
    kernel = std::make_shared<Kernel>();
    kernel->library = library;
    kernel->library_handle = library.get();
    kernel->name = name;
    process.kernels.insert(kernel);
  }
  *out = kernel.get();
  return CUDA_SUCCESS;
}

const emulated_kernel* describe(const Kernel& kernel) {
  auto library = kernel.library.lock();
  if (!library) return nullptr;
  const MutexLock lock(library->mutex);
  library->described.resize(library->image.size());
  for (size_t i = 0; i < library->image.size(); i++) {
    if (!library->image[i]->has_kernel(kernel.name)) continue;
    auto& part = library->described[i];
    std::string error;
    bool bad = false;
    if (!part) {
      auto loaded = std::make_unique<HostModule>();
      if (!loaded->load(*library->image[i], &error)) return nullptr;
      part = std::move(loaded);
    }
    return part->kernel(kernel.name.c_str(), &bad);
  }
  return nullptr;
}

CUresult find_function(Process& process, Context& context, const void* handle,
                       std::shared_ptr<Function>* out) {
  if ((*out = process.functions.find(handle))) return CUDA_SUCCESS;
  auto kernel = process.kernels.find(handle);
  if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
  const MutexLock lock(kernel->mutex);
  for (auto& [id, function] : kernel->functions) {
    if (id == context.id && (*out = function.lock())) return CUDA_SUCCESS;
  }
  auto library = kernel->library.lock();
  if (!library) return CUDA_ERROR_INVALID_HANDLE;
  std::shared_ptr<Module> instance;
  if (CUresult result = instance_of(process, *library, context, &instance)) return result;
  Function* function;
  if (CUresult result = get_function(process, *instance, kernel->name.c_str(), &function)) {
    return result;
  }
  *out = process.functions.find(function);
  if (!*out) return CUDA_ERROR_INVALID_HANDLE;
  auto limit = kernel->max_dynamic_shared_bytes.find(context.ordinal);
  if (limit != kernel->max_dynamic_shared_bytes.end()) {
    (*out)->max_dynamic_shared_bytes = limit->second;
  }
  std::erase_if(kernel->functions,
                [&](auto& known) { return known.first == context.id || known.second.expired(); });
  kernel->functions.emplace_back(context.id, *out);
  return CUDA_SUCCESS;
}

std::shared_ptr<Function> find_function(Process& process, const void* handle) {
  if (auto function = process.functions.find(handle)) return function;
  Process* same;
  std::shared_ptr<Context> context;
  std::shared_ptr<Function> function;
  if (current(&same, &context) == CUDA_SUCCESS) find_function(process, *context, handle, &function);
  return function;
}

}  // namespace lambent::emulated_cuda
