// Reads what the bundle tool must know from an object or a shared object that a host compiler made,
// and patches one number in it. Pure functions over bytes, strict about bounds; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace lambent::bundle {

struct ThreadLocalSymbol {
  std::string name;
  uint64_t bytes = 0;
  bool defined = false;
};

// The thread-local variables of an ELF64 file for this machine: __shared__ ones, in our modules.
Result<std::vector<ThreadLocalSymbol>> thread_local_symbols(std::string_view elf);

// Writes `value` at `offset` bytes into the data symbol `name`.
Result<void> patch_symbol(std::string& elf, std::string_view name, size_t offset, uint32_t value);

// The names of defined data symbols that start with `prefix`, without it.
Result<std::vector<std::string>> symbols_with_prefix(std::string_view elf, std::string_view prefix);

// The names of functions in sections of this name, which is how kernels are marked when they are
// looked for (program_kernels.cc).
Result<std::vector<std::string>> functions_in_section(std::string_view elf,
                                                      std::string_view section);

}  // namespace lambent::bundle
