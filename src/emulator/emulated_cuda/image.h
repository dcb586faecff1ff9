// What a module image is, told from its first bytes, and the host code that stands behind it: the
// image itself if it is a shared object for this processor, else the side modules of the program.
// Used by the module and library calls, any thread.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/mutex.h"
#include "emulator/emulated_cuda/elf_image.h"
#include "gpu/cuda_abi/emulated_kernel.h"

namespace lambent::emulated_cuda {

enum class ImageKind { kHostElf, kCubin, kFatBinary, kFatBinaryWrapper, kPtx, kUnknown };

// Reads at most the first 64 bytes, fewer where the first ones decide.
ImageKind image_kind(const void* image);

// The size that an ELF header states for its file; 0 if it states nonsense.
size_t elf_image_bytes(const void* header);

// One file of host code, checked and never changed.
class HostCode {
 public:
  // `bytes` readable bytes are expected at `image`; if they are not, that is an error like others.
  static std::shared_ptr<const HostCode> copy(const void* image, size_t bytes, std::string* error);
  static std::shared_ptr<const HostCode> read(const std::string& path, std::string* error);

  const std::vector<char>& bytes() const { return bytes_; }
  // Null if the code does not define the name.
  const ElfSymbol* find(const std::string& name) const;
  bool has_kernel(const std::string& name) const {
    return find(EMULATED_KERNEL_SYMBOL_PREFIX + name) != nullptr;
  }
  // The names of its kernels, sorted.
  std::vector<std::string> kernels() const;
  bool has_managed() const;

 private:
  bool check(std::string* error);

  std::vector<char> bytes_;
  std::vector<ElfSymbol> symbols_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

// All host code behind one image; looked through in order.
using Image = std::vector<std::shared_ptr<const HostCode>>;

// The host code that belongs to programs whose images hold GPU code only: the files and folders
// that EMULATED_CUDA_KERNELS names, and FILE.kernels.so beside the file that holds the image and
// beside the program.
class SideModules {
 public:
  // `setting` is what EMULATED_CUDA_KERNELS says. Empty if there are none; `notes` tells of files
  // that are no host code.
  Image find(const std::string& setting, const void* image, std::vector<std::string>* notes);

 private:
  std::shared_ptr<const HostCode> open(const std::string& path, bool must_exist,
                                       std::vector<std::string>* notes) REQUIRES(mutex_);

  Mutex mutex_;
  // Null: of no use.
  std::unordered_map<std::string, std::shared_ptr<const HostCode>> opened_ GUARDED_BY(mutex_);
};

// Host code loaded into the process, with variables of its own: loading twice gives two sets.
class HostModule {
 public:
  bool load(const HostCode& code, std::string* error);
  ~HostModule();
  HostModule() = default;
  HostModule(const HostModule&) = delete;
  HostModule& operator=(const HostModule&) = delete;

  // Null if there is no such kernel; `bad` tells one that is damaged or has another ABI version.
  const emulated_kernel* kernel(const char* name, bool* bad) const;
  // The address of a variable; null if there is none.
  void* variable(const char* name) const;

 private:
  bool inside(const void* address, size_t bytes) const;

  void* handle_ = nullptr;
  int fd_ = -1;
};

}  // namespace lambent::emulated_cuda
