#include "gpu/bundle/elf_module.h"

#include <elf.h>

#include <cstring>
#include <functional>

namespace lambent::bundle {
namespace {

Error invalid(const char* what) {
  return {ErrorCode::kInvalidArgument, std::string("compiled kernel module: ") + what};
}

template <typename T>
Result<T> read_at(std::string_view elf, uint64_t offset) {
  if (offset > elf.size() || elf.size() - offset < sizeof(T)) return invalid("truncated ELF file");
  T value;
  memcpy(&value, elf.data() + offset, sizeof(T));
  return value;
}

struct Sections {
  std::string_view elf;
  Elf64_Ehdr header;

  Result<Elf64_Shdr> at(unsigned index) const {
    if (index >= header.e_shnum) return invalid("no such section");
    return read_at<Elf64_Shdr>(elf, header.e_shoff + uint64_t{index} * sizeof(Elf64_Shdr));
  }
};

Result<Sections> open_sections(std::string_view elf) {
  ASSIGN_OR_RETURN(const auto header, read_at<Elf64_Ehdr>(elf, 0));
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_shentsize != sizeof(Elf64_Shdr)) {
    return invalid("not a 64-bit ELF file");
  }
  return Sections{elf, header};
}

Result<std::string> name_at(std::string_view elf, const Elf64_Shdr& names, uint64_t index) {
  if (names.sh_offset > elf.size() || names.sh_size > elf.size() - names.sh_offset ||
      index >= names.sh_size) {
    return invalid("a name lies outside of its table");
  }
  const char* begin = elf.data() + names.sh_offset + index;
  const size_t most = names.sh_size - index;
  return std::string(begin, strnlen(begin, most));
}

using Visitor = std::function<Result<void>(const Elf64_Sym&, const std::string& name)>;

// Calls `visit` for every symbol of the full table.
Result<void> for_each_symbol(const Sections& sections, const Visitor& visit) {
  for (unsigned i = 0; i < sections.header.e_shnum; ++i) {
    ASSIGN_OR_RETURN(const auto table, sections.at(i));
    if (table.sh_type != SHT_SYMTAB) continue;
    ASSIGN_OR_RETURN(const auto names, sections.at(table.sh_link));
    for (uint64_t offset = 0; offset + sizeof(Elf64_Sym) <= table.sh_size;
         offset += sizeof(Elf64_Sym)) {
      ASSIGN_OR_RETURN(const auto symbol,
                       read_at<Elf64_Sym>(sections.elf, table.sh_offset + offset));
      ASSIGN_OR_RETURN(const auto name, name_at(sections.elf, names, symbol.st_name));
      RETURN_IF_ERROR(visit(symbol, name));
    }
  }
  return {};
}

}  // namespace

Result<std::vector<ThreadLocalSymbol>> thread_local_symbols(std::string_view elf) {
  ASSIGN_OR_RETURN(const Sections sections, open_sections(elf));
  std::vector<ThreadLocalSymbol> found;
  RETURN_IF_ERROR(for_each_symbol(sections, [&](const Elf64_Sym& symbol, const std::string& name) {
    if (ELF64_ST_TYPE(symbol.st_info) == STT_TLS) {
      found.push_back({name, symbol.st_size, symbol.st_shndx != SHN_UNDEF});
    }
    return Result<void>{};
  }));
  return found;
}

Result<void> patch_symbol(std::string& elf, std::string_view wanted, size_t offset,
                          uint32_t value) {
  ASSIGN_OR_RETURN(const Sections sections, open_sections(elf));
  uint64_t place = 0;
  RETURN_IF_ERROR(for_each_symbol(sections, [&](const Elf64_Sym& symbol, const std::string& name) {
    if (name != wanted || symbol.st_shndx == SHN_UNDEF) return Result<void>{};
    if (symbol.st_size < offset + sizeof(value)) return Result<void>{invalid("small symbol")};
    const auto section = sections.at(symbol.st_shndx);
    if (!section.ok()) return Result<void>{section.error()};
    place = section->sh_offset + (symbol.st_value - section->sh_addr) + offset;
    return Result<void>{};
  }));
  if (place == 0) return invalid("a kernel's symbol is missing");
  RETURN_IF_ERROR([&]() -> Result<void> {
    ASSIGN_OR_RETURN([[maybe_unused]] const auto old, read_at<uint32_t>(elf, place));
    return {};
  }());
  memcpy(elf.data() + place, &value, sizeof(value));
  return {};
}

Result<std::vector<std::string>> symbols_with_prefix(std::string_view elf,
                                                     std::string_view prefix) {
  ASSIGN_OR_RETURN(const Sections sections, open_sections(elf));
  std::vector<std::string> found;
  RETURN_IF_ERROR(for_each_symbol(sections, [&](const Elf64_Sym& symbol, const std::string& name) {
    if (symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT &&
        name.starts_with(prefix)) {
      found.push_back(name.substr(prefix.size()));
    }
    return Result<void>{};
  }));
  return found;
}

Result<std::vector<std::string>> functions_in_section(std::string_view elf,
                                                      std::string_view section) {
  ASSIGN_OR_RETURN(const Sections sections, open_sections(elf));
  std::vector<std::string> found;
  if (sections.header.e_shnum == 0) return found;
  ASSIGN_OR_RETURN(const auto names, sections.at(sections.header.e_shstrndx));
  RETURN_IF_ERROR(for_each_symbol(
      sections, [&](const Elf64_Sym& symbol, const std::string& name) -> Result<void> {
        if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF ||
            symbol.st_shndx >= SHN_LORESERVE) {
          return {};
        }
        ASSIGN_OR_RETURN(const auto place, sections.at(symbol.st_shndx));
        ASSIGN_OR_RETURN(const auto of_place, name_at(elf, names, place.sh_name));
        if (of_place == section) found.push_back(name);
        return {};
      }));
  return found;
}

}  // namespace lambent::bundle
