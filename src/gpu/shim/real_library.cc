#include "gpu/shim/real_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/shim/log.h"

namespace lambent::shim {
namespace {

using Open = void* (*)(const char*, int);

void* library = nullptr;
bool absence_is_told = false;
[[gnu::tls_model("initial-exec")]] thread_local bool opening = false;

int no_library() { return kRealLibrary.no_library_status; }
int no_function() { return kRealLibrary.no_function_status; }

// Whether `path` is, by whatever name, the file that this code lies in.
bool is_this_library(const char* path) {
  Dl_info self = {};
  char real_self[PATH_MAX];
  char real_other[PATH_MAX];
  return dladdr(reinterpret_cast<void*>(&is_this_library), &self) != 0 &&
         realpath(self.dli_fname, real_self) != nullptr && realpath(path, real_other) != nullptr &&
         strcmp(real_self, real_other) == 0;
}

// By absolute path: by its plain name the loader would find this library, which bears it too.
void* open_path(const char* path) {
  if (path[0] != '/' || is_this_library(path)) return nullptr;
  // Past the driver shim's own dlopen, which would lead back to a shim.
  Open open = reinterpret_cast<Open>(dlsym(RTLD_DEFAULT, "lambent_shim_real_dlopen"));
  if (open == nullptr) open = reinterpret_cast<Open>(dlsym(RTLD_NEXT, "dlopen"));
  return open == nullptr ? nullptr : open(path, RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

// Without a lock, which a fork could leave taken: threads that come here together all open the same
// file, and the loader gives each the same handle.
void* open_real_library() {
  void* known = __atomic_load_n(&library, __ATOMIC_ACQUIRE);
  if (known != nullptr || opening) return known;
  opening = true;
  if (const char* path = kRealLibrary.configured_path(); path != nullptr) {
    known = open_path(path);
  } else {
    for (const char* const* usual = kRealLibrary.usual_paths; known == nullptr && *usual; ++usual) {
      known = open_path(*usual);
    }
  }
  if (known == nullptr && !__atomic_exchange_n(&absence_is_told, true, __ATOMIC_ACQ_REL)) {
    const char* why = dlerror();
    log_line("no real library: %s", why == nullptr ? "none is where it was looked for" : why);
  }
  __atomic_store_n(&library, known, __ATOMIC_RELEASE);
  opening = false;
  return known;
}

void* real_function(const char* name) {
  void* real = open_real_library();
  return real == nullptr ? nullptr : dlsym(real, name);
}

}  // namespace lambent::shim

void* lambent_shim_resolve(unsigned slot) {
  using namespace lambent::shim;
  const char* name = lambent_shim_names[slot];
  if (open_real_library() == nullptr) return reinterpret_cast<void*>(&no_library);
  void* function = real_function(name);
  if (function == nullptr) {
    log_line("the real library has no %s", name);
    function = reinterpret_cast<void*>(&no_function);
  }
  __atomic_store_n(&lambent_shim_slots[slot], function, __ATOMIC_RELEASE);
  return function;
}
