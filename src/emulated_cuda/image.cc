#include "emulated_cuda/image.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace lambent::emulated_cuda {

namespace {

constexpr uint32_t kFatBinaryWrapperMagic = 0x466243b1;
constexpr uint32_t kFatBinaryMagic = 0xba55ed50;
constexpr uint16_t kCudaMachine = 190;
constexpr size_t kMaxImageBytes = size_t{1} << 30;

#if defined(__x86_64__)
constexpr uint16_t kHostMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kHostMachine = EM_AARCH64;
#endif

}  // namespace

ImageKind image_kind(const void* image) {
  const auto* bytes = static_cast<const unsigned char*>(image);
  if (bytes[0] == '.' || (bytes[0] == '/' && bytes[1] == '/') || bytes[0] == '\n') {
    return ImageKind::kPtx;
  }
  if (bytes[0] == 0) return ImageKind::kUnknown;
  uint32_t magic;
  std::memcpy(&magic, bytes, sizeof magic);
  if (magic == kFatBinaryWrapperMagic) return ImageKind::kFatBinaryWrapper;
  if (magic == kFatBinaryMagic) return ImageKind::kFatBinary;
  if (std::memcmp(bytes, ELFMAG, SELFMAG) != 0) return ImageKind::kUnknown;
  Elf64_Ehdr header;
  std::memcpy(&header, bytes, sizeof header);
  if (header.e_machine == kCudaMachine) return ImageKind::kCubin;
  bool host = header.e_machine == kHostMachine && header.e_type == ET_DYN &&
              header.e_ident[EI_CLASS] == ELFCLASS64;
  return host ? ImageKind::kHostElf : ImageKind::kUnknown;
}

size_t elf_image_bytes(const void* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  if (header.e_shoff > kMaxImageBytes || header.e_phoff > kMaxImageBytes) return 0;
  size_t bytes = std::max<size_t>(header.e_shoff + size_t{header.e_shnum} * header.e_shentsize,
                                  header.e_phoff + size_t{header.e_phnum} * header.e_phentsize);
  return bytes >= sizeof header && header.e_shoff != 0 && bytes <= kMaxImageBytes ? bytes : 0;
}

bool HostModule::load(const void* image, size_t bytes, std::string* error) {
  fd_ = memfd_create("host-module", MFD_CLOEXEC);
  const char* next = static_cast<const char*>(image);
  for (size_t left = bytes; fd_ >= 0 && left > 0;) {
    ssize_t written = write(fd_, next, left);
    if (written <= 0) {
      *error = "cannot copy the module image";
      return false;
    }
    next += written;
    left -= static_cast<size_t>(written);
  }
  // The descriptor stays open: the loader knows objects by name, and this name must not come again
  // while the module is loaded.
  std::string path = "/proc/self/fd/" + std::to_string(fd_);
  handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle_) {
    const char* reason = dlerror();
    *error = reason ? reason : "dlopen failed";
  }
  return handle_ != nullptr;
}

HostModule::~HostModule() {
  if (handle_) dlclose(handle_);
  if (fd_ >= 0) close(fd_);
}

const emulated_kernel* HostModule::kernel(const char* name, bool* bad_version) const {
  std::string symbol = std::string(EMULATED_KERNEL_SYMBOL_PREFIX) + name;
  const auto* found = static_cast<const emulated_kernel*>(dlsym(handle_, symbol.c_str()));
  *bad_version = found && (found->abi_version != EMULATED_KERNEL_ABI_VERSION || !found->run_block);
  return *bad_version ? nullptr : found;
}

void* HostModule::variable(const char* name, size_t* bytes) const {
  void* address = dlsym(handle_, name);
  Dl_info info;
  ElfW(Sym)* symbol = nullptr;
  if (!address || !dladdr1(address, &info, reinterpret_cast<void**>(&symbol), RTLD_DL_SYMENT) ||
      !symbol || ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT) {
    return nullptr;
  }
  *bytes = symbol->st_size;
  return address;
}

}  // namespace lambent::emulated_cuda
