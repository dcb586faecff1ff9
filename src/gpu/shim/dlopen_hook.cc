// dlopen by absolute path would go past the preloaded libraries, which the loader knows by their
// plain names: paths that end in libcuda.so* or libnvidia-ml.so* become those names.
#include <dlfcn.h>
#include <string.h>

extern "C" {
[[gnu::visibility("hidden")]] const char* lambent_shim_rewritten_path(const char* path);
[[gnu::visibility("hidden")]] void* lambent_shim_plain_dlopen();
[[gnu::visibility("default")]] void* lambent_shim_real_dlopen(const char* path, int flags);
}

namespace {

using Open = void* (*)(const char*, int);

bool is_named(const char* file, const char* library) {
  const size_t length = strlen(library);
  return strncmp(file, library, length) == 0 && (file[length] == '\0' || file[length] == '.');
}

}  // namespace

// What to open instead of `path`; `path` itself if it is none of ours.
const char* lambent_shim_rewritten_path(const char* path) {
  if (path == nullptr) return path;
  const char* slash = strrchr(path, '/');
  const char* file = slash == nullptr ? path : slash + 1;
  if (is_named(file, "libcuda.so")) return "libcuda.so.1";
  // Only if the NVML shim is preloaded too: else the plain name could mean another file.
  if (is_named(file, "libnvidia-ml.so") && dlsym(RTLD_DEFAULT, "lambent_shim_nvml_is_here")) {
    return "libnvidia-ml.so.1";
  }
  return path;
}

void* lambent_shim_plain_dlopen() {
  static void* plain = nullptr;
  void* known = __atomic_load_n(&plain, __ATOMIC_ACQUIRE);
  if (known == nullptr) {
    known = dlsym(RTLD_NEXT, "dlopen");
    __atomic_store_n(&plain, known, __ATOMIC_RELEASE);
  }
  return known;
}

// For the shims themselves, which must get past the rewriting.
void* lambent_shim_real_dlopen(const char* path, int flags) {
  return reinterpret_cast<Open>(lambent_shim_plain_dlopen())(path, flags);
}

// In assembly, as it must end in a jump: the loader looks at the return address to see on whose
// behalf it searches (its RUNPATH, its $ORIGIN), and that must stay the program's.
asm(R"(
  .text
  .globl dlopen
  .type dlopen, @function
  .p2align 4
dlopen:
  endbr64
  pushq %rsi
  subq $16, %rsp
  call lambent_shim_rewritten_path
  movq %rax, (%rsp)
  call lambent_shim_plain_dlopen
  movq (%rsp), %rdi
  addq $16, %rsp
  popq %rsi
  jmp *%rax
  .size dlopen, .-dlopen
)");
