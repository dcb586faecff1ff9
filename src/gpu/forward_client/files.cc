#include "gpu/forward_client/files.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace lambent::forward_client {
namespace {

constexpr size_t kMostFileBytes = size_t{1} << 30;
constexpr const char* kKernelsVariable = "EMULATED_CUDA_KERNELS";
constexpr const char* kSideSuffix = ".kernels.so";

bool read_beside(const char* file, FileContent* content) {
  char path[PATH_MAX];
  const int length = std::snprintf(path, sizeof(path), "%s%s", file, kSideSuffix);
  if (length < 0 || static_cast<size_t>(length) >= sizeof(path)) return false;
  return read_whole_file(path, content) == CUDA_SUCCESS;
}

// The first file of the list that can be read: an image has one module in the executor.
bool read_named(const char* list, FileContent* content) {
  char path[PATH_MAX];
  while (*list != '\0') {
    const size_t length = std::strcspn(list, ":");
    const bool fits = length > 0 && length < sizeof(path);
    if (fits) std::snprintf(path, sizeof(path), "%.*s", static_cast<int>(length), list);
    list += length + (list[length] == ':' ? 1 : 0);
    if (!fits || read_whole_file(path, content) != CUDA_SUCCESS) continue;
    static bool said = false;
    if (*list != '\0' && !__atomic_exchange_n(&said, true, __ATOMIC_RELAXED)) {
      say("a shared runtime takes one file of EMULATED_CUDA_KERNELS, compile all sources into one "
          "('lambent-bundle host a.cu b.cu'): it took ",
          path);
    }
    return true;
  }
  return false;
}

}  // namespace

CUresult read_whole_file(const char* path, FileContent* content) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return CUDA_ERROR_FILE_NOT_FOUND;
  struct stat status = {};
  CUresult result = CUDA_ERROR_INVALID_IMAGE;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 &&
      static_cast<size_t>(status.st_size) <= kMostFileBytes) {
    content->size = static_cast<size_t>(status.st_size);
    content->bytes = static_cast<char*>(std::malloc(content->size + 1));
    result = content->bytes == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  }
  size_t at = 0;
  while (result == CUDA_SUCCESS && at < content->size) {
    const ssize_t count = read(fd, content->bytes + at, content->size - at);
    if (count <= 0) result = CUDA_ERROR_INVALID_IMAGE;
    at += static_cast<size_t>(count > 0 ? count : 0);
  }
  close(fd);
  if (result == CUDA_SUCCESS) {
    content->bytes[content->size] = '\0';
    return CUDA_SUCCESS;
  }
  std::free(content->bytes);
  *content = {};
  return result;
}

bool read_side_code(const void* image, FileContent* content) {
  const char* named = std::getenv(kKernelsVariable);
  if (named != nullptr && read_named(named, content)) return true;
  Dl_info holder;
  if (dladdr(image, &holder) != 0 && holder.dli_fname != nullptr &&
      read_beside(holder.dli_fname, content)) {
    return true;
  }
  char program[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
  if (length <= 0) return false;
  program[length] = '\0';
  return read_beside(program, content);
}

bool is_mapped(const void* bytes, size_t size) {
  constexpr size_t kPagesAtOnce = 4096;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident[kPagesAtOnce];
  const auto begin = reinterpret_cast<uintptr_t>(bytes) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(bytes) + size;
  for (uintptr_t at = begin; at < end; at += kPagesAtOnce * page) {
    const size_t part = end - at < kPagesAtOnce * page ? end - at : kPagesAtOnce * page;
    if (mincore(reinterpret_cast<void*>(at), part, resident) != 0 && errno == ENOMEM) return false;
  }
  return true;
}

void* own_symbol(const char* name) {
  static void* self = [] {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&own_symbol), &info) == 0)
      return static_cast<void*>(nullptr);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return self == nullptr ? nullptr : dlsym(self, name);
}

void say(const char* first, const char* second) {
  char line[4096];
  const int length = std::snprintf(line, sizeof(line) - 1, "lambent: %s%s", first, second);
  if (length <= 0) return;
  size_t size = std::strlen(line);
  if (line[size - 1] != '\n') line[size++] = '\n';
  if (write(STDERR_FILENO, line, size) < 0) {
    // There is no caller to tell.
  }
}

CUresult refuse(const char* name, unsigned char* said) {
  if (__atomic_exchange_n(said, 1, __ATOMIC_RELAXED) == 0) {
    say(name, " is not forwarded to the shared runtime");
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace lambent::forward_client

extern "C" __attribute__((visibility("hidden"))) int lambent_forward_refuse(const char* name,
                                                                            unsigned char* said) {
  return lambent::forward_client::refuse(name, said);
}
