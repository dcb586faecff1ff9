// What a module image is, told from its first bytes, and the loading of the one kind that runs
// here: an ELF shared object for this processor. Used by the module calls, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cuda_abi/emulated_kernel.h"

namespace lambent::emulated_cuda {

enum class ImageKind { kHostElf, kCubin, kFatBinary, kFatBinaryWrapper, kPtx, kUnknown };

// Reads at most the first 64 bytes, fewer where the first ones decide.
ImageKind image_kind(const void* image);

// The size that an ELF header states for its file; 0 if it states nonsense.
size_t elf_image_bytes(const void* header);

// A loaded host module.
class HostModule {
 public:
  // The caller vouches for `bytes` readable bytes. On failure returns false and says why.
  bool load(const void* image, size_t bytes, std::string* error);
  ~HostModule();
  HostModule() = default;
  HostModule(const HostModule&) = delete;
  HostModule& operator=(const HostModule&) = delete;

  // Null if there is no such kernel; `bad_version` tells one with another ABI version.
  const emulated_kernel* kernel(const char* name, bool* bad_version) const;
  // The address and size of a variable; null if there is none.
  void* variable(const char* name, size_t* bytes) const;

 private:
  void* handle_ = nullptr;
  int fd_ = -1;
};

}  // namespace lambent::emulated_cuda
