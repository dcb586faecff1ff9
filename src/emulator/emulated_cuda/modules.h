// Modules, libraries and their kernels as the process holds them. A module belongs to one context;
// a library to the process, with an instance (a module) in each context that uses it, so that each
// context has variables of its own. Any thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/mutex.h"
#include "emulator/emulated_cuda/image.h"
#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_cuda {

class Process;
struct Context;
struct Module;

// A kernel in a context.
struct Function {
  Module* module;
  std::string name;
  const emulated_kernel* kernel;
  int max_dynamic_shared_bytes;
};

struct Module {
  void* context;  // null: the one instance that all contexts share
  int device;
  bool of_library;  // goes with its library, not by cuModuleUnload
  Image image;
  uint64_t counted_bytes = 0;
  Mutex mutex;
  std::vector<std::unique_ptr<HostModule>> parts GUARDED_BY(mutex);  // one for each of `image`
  std::unordered_map<std::string, std::shared_ptr<Function>> functions GUARDED_BY(mutex);
  std::vector<uintptr_t> variables GUARDED_BY(mutex);
};

struct Library;

// A kernel of a library, in whichever context: what a CUkernel stands for.
struct Kernel {
  std::weak_ptr<Library> library;
  const void* library_handle;
  std::string name;
  Mutex mutex;
  // By id of the context.
  std::vector<std::pair<uint64_t, std::weak_ptr<Function>>> functions GUARDED_BY(mutex);
  std::map<int, int> max_dynamic_shared_bytes GUARDED_BY(mutex);  // by ordinal of the device
};

struct Library {
  Image image;
  // Managed variables have one address in all contexts, so their library has one instance.
  bool shared_instance;
  Mutex mutex;
  // By id of the context; 0: shared.
  std::map<uint64_t, std::weak_ptr<Module>> instances GUARDED_BY(mutex);
  std::map<std::string, std::shared_ptr<Kernel>> kernels GUARDED_BY(mutex);
  // Loaded for what a kernel is like, where no context is given; nothing of it runs.
  std::vector<std::unique_ptr<HostModule>> described GUARDED_BY(mutex);
};

// The host code behind an image; `available` is 0 where the call gives no size. On failure `reason`
// says why, for the log and for the caller's error buffer.
CUresult read_image(Process& process, const void* image, size_t available, Image* out,
                    std::string* reason);
CUresult read_image_file(Process& process, const char* path, Image* out, std::string* reason);

// Loads an image into a context; `context` null: for all of them, counted on `device`.
CUresult load_module(Process& process, Context* context, int device, Image image, bool of_library,
                     std::shared_ptr<Module>* out);
// Waits for what may still run, and releases the module.
void unload_module(Process& process, const std::shared_ptr<Module>& module);

CUresult get_function(Process& process, Module& module, const char* name, Function** out);
CUresult get_variable(Process& process, Module& module, const char* name, bool managed_only,
                      CUdeviceptr* address, size_t* bytes);
// The names of all kernels behind an image, each once.
std::vector<std::string> kernel_names(const Image& image);

// The library's instance in a context, loaded if it is the first use there.
CUresult instance_of(Process& process, Library& library, Context& context,
                     std::shared_ptr<Module>* out);
CUresult get_kernel(Process& process, const std::shared_ptr<Library>& library, const char* name,
                    Kernel** out);

// What a kernel is like, whatever the context; null if its code cannot be loaded.
const emulated_kernel* describe(const Kernel& kernel);

// What a program may launch or ask about: a function, or a kernel, which then means its function in
// this context. INVALID_HANDLE for anything else.
CUresult find_function(Process& process, Context& context, const void* handle,
                       std::shared_ptr<Function>* out);
// The same in the calling thread's context, if it has one; null instead of a reason.
std::shared_ptr<Function> find_function(Process& process, const void* handle);

}  // namespace lambent::emulated_cuda
