#include "gpu/forward_server/module_image.h"

#include <elf.h>

#include <cstring>
#include <optional>

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

// The names of sections, in the table where the header says they lie.
class SectionNames {
 public:
  // Not sound if it names what lies beyond the image.
  bool find(std::string_view image, const Elf64_Ehdr& header, uint64_t sections) {
    if (sections == 0 || header.e_shstrndx == SHN_UNDEF) return true;
    uint64_t index = header.e_shstrndx;
    // With very many sections the first says which.
    if (index == SHN_XINDEX) index = row_at<Elf64_Shdr>(image, header.e_shoff, 0).sh_link;
    if (index >= sections) return false;
    const auto table = row_at<Elf64_Shdr>(image, header.e_shoff, index);
    if (!lies_within(table.sh_offset, table.sh_size, image.size())) return false;
    names_ = image.substr(table.sh_offset, table.sh_size);
    return names_.empty() || names_.back() == '\0';
  }
  // None if it lies beyond the table.
  std::optional<std::string_view> name_of(const Elf64_Shdr& section) const {
    if (names_.empty() && section.sh_name == 0) return std::string_view();
    if (section.sh_name >= names_.size()) return std::nullopt;
    const std::string_view rest = names_.substr(section.sh_name);
    return rest.substr(0, rest.find('\0'));
  }

 private:
  std::string_view names_;
};

// Where compilers put what each block of a kernel has while it runs: it takes nothing of the
// device's memory.
bool is_shared_memory(std::string_view name) {
  return name == ".nv.shared" || name.starts_with(".nv.shared.");
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
  SectionNames names;
  if (!names.find(image, header, sections)) return {};
  ModuleImage found{true, Bytes()};
  for (uint64_t i = 0; i < sections; ++i) {
    const auto section = row_at<Elf64_Shdr>(image, header.e_shoff, i);
    if (section.sh_type == SHT_NULL) continue;
    const auto name = names.name_of(section);
    if (!name) return {};
    if (section.sh_type != SHT_NOBITS) {
      if (!lies_within(section.sh_offset, section.sh_size, image.size())) return {};
      continue;
    }
    if ((section.sh_flags & SHF_ALLOC) == 0 || (section.sh_flags & SHF_TLS) != 0) continue;
    if (is_shared_memory(*name)) continue;
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
