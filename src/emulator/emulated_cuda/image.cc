#include "emulator/emulated_cuda/image.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "emulator/emulated_cuda/host_pages.h"

namespace lambent::emulated_cuda {

namespace {

constexpr uint32_t kFatBinaryWrapperMagic = 0x466243b1;
constexpr uint32_t kFatBinaryMagic = 0xba55ed50;
constexpr uint16_t kCudaMachine = 190;
constexpr size_t kMaxImageBytes = size_t{1} << 30;
constexpr uint32_t kMostParameters = 4096;

#if defined(__x86_64__)
constexpr uint16_t kHostMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kHostMachine = EM_AARCH64;
#endif

// A file without a name that holds these bytes, or -1. The kernel copies, so that bytes which are
// not there are an error and no crash. The C library's write() would let a sanitizer look first.
int anonymous_copy(const void* image, size_t bytes) {
  int fd = memfd_create("host-module", MFD_CLOEXEC);
  const char* next = static_cast<const char*>(image);
  for (size_t left = bytes; fd >= 0 && left > 0;) {
    ssize_t written = syscall(SYS_write, fd, next, left);
    if (written <= 0) {
      close(fd);
      return -1;
    }
    next += written;
    left -= static_cast<size_t>(written);
  }
  return fd;
}

// A path to the descriptor that was never given before. The loader knows objects by their paths,
// and some stay loaded when they are closed (those with unique symbols): a path that came again
// would find such an object instead of the file. So each path spells its number in "/." and "//".
std::string fresh_path(int fd) {
  static std::atomic<uint32_t> next{0};
  std::string path = "/proc/self/fd";
  const uint32_t number = next++;
  for (int bit = 0; bit < 32; bit++) path += number >> bit & 1 ? "/." : "//";
  return path + "/" + std::to_string(fd);
}

}  // namespace

ImageKind image_kind(const void* image) {
  const auto* bytes = static_cast<const unsigned char*>(image);
  if (bytes[0] == 0) return ImageKind::kUnknown;
  // PTX is text; it may begin with space or a comment.
  if (bytes[0] == '.' || std::strchr(" \t\r\n", bytes[0]) ||
      (bytes[0] == '/' && (bytes[1] == '/' || bytes[1] == '*'))) {
    return ImageKind::kPtx;
  }
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

std::shared_ptr<const HostCode> HostCode::copy(const void* image, size_t bytes,
                                               std::string* error) {
  auto code = std::make_shared<HostCode>();
  code->bytes_.resize(bytes);
  int fd = anonymous_copy(image, bytes);
  bool copied = fd >= 0 && pread(fd, code->bytes_.data(), bytes, 0) == static_cast<ssize_t>(bytes);
  if (fd >= 0) close(fd);
  if (!copied) {
    *error = "the image is shorter than it says";
    return nullptr;
  }
  return code->check(error) ? code : nullptr;
}

std::shared_ptr<const HostCode> HostCode::read(const std::string& path, std::string* error) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    *error = "cannot be read";
    return nullptr;
  }
  auto code = std::make_shared<HostCode>();
  code->bytes_.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  return code->check(error) ? code : nullptr;
}

bool HostCode::check(std::string* error) {
  if (!read_elf({bytes_.data(), bytes_.size()}, &symbols_, error)) return false;
  for (size_t i = 0; i < symbols_.size(); i++) by_name_.emplace(symbols_[i].name, i);
  return true;
}

const ElfSymbol* HostCode::find(const std::string& name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &symbols_[it->second];
}

std::vector<std::string> HostCode::kernels() const {
  constexpr std::string_view prefix = EMULATED_KERNEL_SYMBOL_PREFIX;
  std::vector<std::string> names;
  for (const ElfSymbol& symbol : symbols_) {
    if (symbol.object && symbol.name.starts_with(prefix)) {
      names.emplace_back(symbol.name.substr(prefix.size()));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool HostCode::has_managed() const {
  return std::any_of(symbols_.begin(), symbols_.end(),
                     [](const ElfSymbol& symbol) { return symbol.managed; });
}

Image SideModules::find(const std::string& setting, const void* image,
                        std::vector<std::string>* notes) {
  namespace fs = std::filesystem;
  const MutexLock lock(mutex_);
  Image found;
  auto use = [&](const std::string& path, bool must_exist) REQUIRES(mutex_) {
    auto code = open(path, must_exist, notes);
    if (code && std::find(found.begin(), found.end(), code) == found.end()) found.push_back(code);
  };
  for (size_t begin = 0; begin < setting.size();) {
    size_t end = std::min(setting.find(':', begin), setting.size());
    const std::string path = setting.substr(begin, end - begin);
    begin = end + 1;
    std::error_code none;
    if (path.empty()) continue;
    if (!fs::is_directory(path, none)) {
      use(path, true);
      continue;
    }
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(path, none)) {
      if (entry.path().extension() == ".so") files.push_back(entry.path().string());
    }
    std::sort(files.begin(), files.end());
    for (const std::string& file : files) use(file, true);
  }
  Dl_info holder;
  if (dladdr(image, &holder) && holder.dli_fname) {
    use(std::string(holder.dli_fname) + ".kernels.so", false);
  }
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none);
  if (!program.empty()) use(program.string() + ".kernels.so", false);
  return found;
}

std::shared_ptr<const HostCode> SideModules::open(const std::string& path, bool must_exist,
                                                  std::vector<std::string>* notes) {
  std::error_code none;
  const auto canonical = std::filesystem::weakly_canonical(path, none).string();
  const std::string& key = canonical.empty() ? path : canonical;
  if (auto it = opened_.find(key); it != opened_.end()) return it->second;
  if (!must_exist && !std::filesystem::exists(key, none)) return nullptr;
  std::string error;
  auto code = HostCode::read(key, &error);
  if (!code) notes->push_back(path + ": " + error);
  opened_[key] = code;
  return code;
}

bool HostModule::load(const HostCode& code, std::string* error) {
  fd_ = anonymous_copy(code.bytes().data(), code.bytes().size());
  if (fd_ < 0) {
    *error = "cannot copy the module image";
    return false;
  }
  const std::string path = fresh_path(fd_);
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

const emulated_kernel* HostModule::kernel(const char* name, bool* bad) const {
  std::string symbol = std::string(EMULATED_KERNEL_SYMBOL_PREFIX) + name;
  const auto* found = static_cast<const emulated_kernel*>(dlsym(handle_, symbol.c_str()));
  *bad = false;
  if (!found) return nullptr;
  *bad = !inside(found, sizeof *found) || found->abi_version < EMULATED_KERNEL_ABI_VERSION ||
         found->abi_version > EMULATED_KERNEL_ABI_LAUNCHES ||
         found->parameter_count > kMostParameters ||
         !inside(found->parameter_sizes, found->parameter_count * sizeof(uint32_t)) ||
         !inside(found->parameter_alignments, found->parameter_count * sizeof(uint32_t)) ||
         !inside(reinterpret_cast<const void*>(found->run_block), 1) ||
         (found->duration_ns && !inside(reinterpret_cast<const void*>(found->duration_ns), 1));
  return *bad ? nullptr : found;
}

// Between the segments of a damaged image there may be addresses of it with nothing behind them.
bool HostModule::inside(const void* address, size_t bytes) const {
  if (bytes == 0) return true;
  Dl_info first, last;
  const char* begin = static_cast<const char*>(address);
  link_map* map = nullptr;
  return begin && dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0 && dladdr(begin, &first) &&
         dladdr(begin + bytes - 1, &last) && first.dli_fbase == last.dli_fbase &&
         reinterpret_cast<uintptr_t>(first.dli_fbase) == map->l_addr &&
         host_pages_accessible(reinterpret_cast<uintptr_t>(begin), bytes, false);
}

void* HostModule::variable(const char* name) const { return dlsym(handle_, name); }

}  // namespace lambent::emulated_cuda
