// An ELF shared object for this processor as bytes: whether the dynamic loader can safely be given
// it, and which symbols it exports. Pure; any thread. The loader trusts what it reads, so
// everything that it would follow is checked first; what the machine code itself does cannot be
// checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lambent::emulated_cuda {

struct ElfSymbol {
  std::string_view name;  // into the bytes
  uint64_t bytes;
  bool object;   // a variable
  bool managed;  // it lies in the section kManagedSection
};

// Where `__managed__` variables lie in a host module.
inline constexpr const char* kManagedSection = "managed_variables";

// Fills in what the object defines for others and returns true, or says what is wrong with it.
// `bytes` outlives the symbols.
bool read_elf(std::string_view bytes, std::vector<ElfSymbol>* symbols, std::string* error);

}  // namespace lambent::emulated_cuda
