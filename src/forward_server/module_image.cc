#include "forward_server/module_image.h"

#include <elf.h>

#include <cstring>

namespace lambent::forward_server {
namespace {

constexpr uint32_t kFatBinaryMagic = 0xba55ed50;

struct FatBinaryHeader {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;  // behind the header
};

bool lies_within(uint64_t offset, uint64_t bytes, size_t end) {
  return offset <= end && bytes <= end - offset;
}

template <typename Row>
Row row_at(std::string_view image, uint64_t offset, uint64_t index) {
  Row row;
  std::memcpy(&row, image.data() + offset + index * sizeof(Row), sizeof(Row));
  return row;
}

// A table of `count` rows of this kind.
template <typename Row>
bool has_table(std::string_view image, uint64_t offset, uint64_t count, uint64_t row_bytes) {
  if (count == 0) return true;
  if (row_bytes != sizeof(Row) || count > image.size() / sizeof(Row)) return false;
  return lies_within(offset, count * sizeof(Row), image.size());
}

ModuleImage read_elf(std::string_view image) {
  if (image.size() < sizeof(Elf64_Ehdr)) return {};
  const auto header = row_at<Elf64_Ehdr>(image, 0, 0);
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return {};
  if (!has_table<Elf64_Phdr>(image, header.e_phoff, header.e_phnum, header.e_phentsize)) return {};
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = row_at<Elf64_Phdr>(image, header.e_phoff, i);
    if (!lies_within(segment.p_offset, segment.p_filesz, image.size())) return {};
  }
  // With very many the first says how many there are.
  uint64_t sections = header.e_shnum;
  if (header.e_shoff != 0 && sections == 0) {
    if (!has_table<Elf64_Shdr>(image, header.e_shoff, 1, header.e_shentsize)) return {};
    sections = row_at<Elf64_Shdr>(image, header.e_shoff, 0).sh_size;
  }
  if (!has_table<Elf64_Shdr>(image, header.e_shoff, sections, header.e_shentsize)) return {};
  ModuleImage found{true, Bytes()};
  for (uint64_t i = 0; i < sections; ++i) {
    const auto section = row_at<Elf64_Shdr>(image, header.e_shoff, i);
    if (section.sh_type == SHT_NULL) continue;
    if (section.sh_type != SHT_NOBITS) {
      if (!lies_within(section.sh_offset, section.sh_size, image.size())) return {};
      continue;
    }
    // Shared memory and the like is no module's.
    if ((section.sh_flags & SHF_ALLOC) == 0 || (section.sh_flags & SHF_TLS) != 0) continue;
    if (section.sh_size > UINT64_MAX - found.zeros.count) return {};
    found.zeros += Bytes(section.sh_size);
  }
  return found;
}

}  // namespace

// A wrapper, as compilers put around fat binaries, is nothing to send: it holds an address of the
// process's, which here would be the executor's.
ModuleImage read_module_image(std::string_view image) {
  if (image.empty()) return {};
  // PTX is text; it may begin with space or a comment.
  if (std::string_view("./ \t\r\n").find(image.front()) != std::string_view::npos)
    return {true, {}};
  if (image.starts_with(ELFMAG)) return read_elf(image);
  if (image.size() < sizeof(FatBinaryHeader)) return {};
  const auto header = row_at<FatBinaryHeader>(image, 0, 0);
  if (header.magic != kFatBinaryMagic || header.header_bytes < sizeof(header)) return {};
  return {lies_within(header.header_bytes, header.bytes, image.size()), {}};
}

}  // namespace lambent::forward_server
