// Module images come from anybody: what is taken for a shared object must be whole enough to look
// names up in, and reading it must never leave the bytes.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/emulated_cuda/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent::emulated_cuda;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::vector<ElfSymbol> symbols;
  std::string error;
  const bool good = read_elf(bytes, &symbols, &error);
  if (good != error.empty()) abort();
  for (const ElfSymbol& symbol : symbols) {
    if (symbol.name.data() < bytes.data() ||
        symbol.name.data() + symbol.name.size() >= bytes.data() + bytes.size()) {
      abort();
    }
  }
  if (size >= 64) {
    if (image_kind(data) == ImageKind::kHostElf && elf_image_bytes(data) > (size_t{1} << 30)) {
      abort();
    }
  }
  const auto code = HostCode::copy(data, size, &error);
  if (code) code->kernels();
  return 0;
}
