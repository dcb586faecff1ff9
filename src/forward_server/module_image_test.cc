#include "forward_server/module_image.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace lambent::forward_server {
namespace {

constexpr size_t kBody = 256;

struct Elf {
  Elf64_Ehdr header{};
  std::vector<Elf64_Shdr> sections;
  std::vector<Elf64_Phdr> segments;

  Elf() {
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_phentsize = sizeof(Elf64_Phdr);
  }
  void add(uint32_t type, uint64_t flags, uint64_t offset, uint64_t bytes) {
    Elf64_Shdr section{};
    section.sh_type = type;
    section.sh_flags = flags;
    section.sh_offset = offset;
    section.sh_size = bytes;
    sections.push_back(section);
  }
  // Header, body, segments, sections.
  std::string image() const {
    Elf64_Ehdr written = header;
    written.e_phnum = static_cast<uint16_t>(segments.size());
    if (written.e_phoff == 0) written.e_phoff = sizeof(header) + kBody;
    const size_t after = sizeof(header) + kBody + segments.size() * sizeof(Elf64_Phdr);
    if (written.e_shoff == 0) written.e_shoff = after;
    if (written.e_shnum == 0) written.e_shnum = static_cast<uint16_t>(sections.size());
    std::string image(reinterpret_cast<const char*>(&written), sizeof(written));
    image.resize(sizeof(header) + kBody, 'x');
    image.append(reinterpret_cast<const char*>(segments.data()),
                 segments.size() * sizeof(Elf64_Phdr));
    image.append(reinterpret_cast<const char*>(sections.data()),
                 sections.size() * sizeof(Elf64_Shdr));
    return image;
  }
};

std::string fat_binary(uint64_t said, size_t there, uint16_t header_bytes = 16) {
  std::string image(16, '\0');
  const uint32_t magic = 0xba55ed50;
  std::memcpy(image.data(), &magic, sizeof(magic));
  std::memcpy(image.data() + 6, &header_bytes, sizeof(header_bytes));
  std::memcpy(image.data() + 8, &said, sizeof(said));
  image.resize(16 + there, 'x');
  return image;
}

TEST(ModuleImage, OfAnElfFileIsSoundIfAllThatItNamesLiesWithinIt) {
  Elf elf;
  elf.add(SHT_NULL, 0, UINT64_MAX, UINT64_MAX);
  elf.add(SHT_PROGBITS, SHF_ALLOC, sizeof(Elf64_Ehdr), kBody);
  elf.segments.push_back({PT_LOAD, 0, 0, 0, 0, sizeof(Elf64_Ehdr) + kBody, 0, 0});
  EXPECT_TRUE(read_module_image(elf.image()).is_sound);
  EXPECT_FALSE(read_module_image(elf.image().substr(0, elf.image().size() - 1)).is_sound);
  EXPECT_FALSE(read_module_image(elf.image().substr(0, sizeof(Elf64_Ehdr) - 1)).is_sound);
  for (const auto& [offset, bytes] :
       std::vector<std::pair<uint64_t, uint64_t>>{{0, 1 << 20}, {1 << 20, 0}, {8, UINT64_MAX}}) {
    Elf wrong = elf;
    wrong.sections.back().sh_offset = offset;
    wrong.sections.back().sh_size = bytes;
    EXPECT_FALSE(read_module_image(wrong.image()).is_sound) << offset;
    wrong = elf;
    wrong.segments.back().p_offset = offset;
    wrong.segments.back().p_filesz = bytes;
    EXPECT_FALSE(read_module_image(wrong.image()).is_sound) << offset;
  }
  for (const uint64_t beyond : {uint64_t{1} << 20, UINT64_MAX - 8}) {
    Elf wrong = elf;
    wrong.header.e_shoff = beyond;
    EXPECT_FALSE(read_module_image(wrong.image()).is_sound);
    wrong = elf;
    wrong.header.e_phoff = beyond;
    EXPECT_FALSE(read_module_image(wrong.image()).is_sound);
  }
  Elf wrong = elf;
  wrong.header.e_shnum = UINT16_MAX - 1;
  EXPECT_FALSE(read_module_image(wrong.image()).is_sound);
  wrong = elf;
  wrong.header.e_shentsize = 1;
  EXPECT_FALSE(read_module_image(wrong.image()).is_sound);
}

TEST(ModuleImage, WithMoreSectionsThanItsHeaderCountsSaysSoInTheFirst) {
  Elf elf;
  elf.add(SHT_NULL, 0, 0, 2);
  elf.add(SHT_PROGBITS, SHF_ALLOC, 0, 8);
  std::string image = elf.image();
  const uint16_t none = 0;
  std::memcpy(image.data() + offsetof(Elf64_Ehdr, e_shnum), &none, sizeof(none));
  EXPECT_TRUE(read_module_image(image).is_sound);
  elf.sections[0].sh_size = 3;
  image = elf.image();
  std::memcpy(image.data() + offsetof(Elf64_Ehdr, e_shnum), &none, sizeof(none));
  EXPECT_FALSE(read_module_image(image).is_sound);
}

TEST(ModuleImage, CountsTheVariablesThatAreNotInTheFile) {
  Elf elf;
  elf.add(SHT_NOBITS, SHF_ALLOC | SHF_WRITE, 0, 1000);
  elf.add(SHT_NOBITS, SHF_ALLOC | SHF_WRITE, 0, uint64_t{1} << 40);
  elf.add(SHT_NOBITS, SHF_ALLOC | SHF_TLS, 0, 77);
  elf.add(SHT_NOBITS, 0, 0, 99);
  const ModuleImage found = read_module_image(elf.image());
  EXPECT_TRUE(found.is_sound);
  EXPECT_EQ(found.zeros.count, (uint64_t{1} << 40) + 1000);
  elf.add(SHT_NOBITS, SHF_ALLOC, 0, UINT64_MAX - 5);
  EXPECT_FALSE(read_module_image(elf.image()).is_sound);
}

TEST(ModuleImage, OfAFatBinaryIsAsLongAsItSays) {
  EXPECT_TRUE(read_module_image(fat_binary(100, 100)).is_sound);
  EXPECT_TRUE(read_module_image(fat_binary(100, 120)).is_sound);
  EXPECT_FALSE(read_module_image(fat_binary(100, 99)).is_sound);
  EXPECT_FALSE(read_module_image(fat_binary(UINT64_MAX - 4, 100)).is_sound);
  EXPECT_FALSE(read_module_image(fat_binary(0, 0, 15)).is_sound);
  EXPECT_FALSE(read_module_image(fat_binary(0, 0, 17)).is_sound);
}

TEST(ModuleImage, OfAnotherKindIsNone) {
  EXPECT_TRUE(read_module_image(".version 9.0").is_sound);
  EXPECT_TRUE(read_module_image("\n// a comment").is_sound);
  EXPECT_FALSE(read_module_image("").is_sound);
  EXPECT_FALSE(read_module_image(std::string(100, '\0')).is_sound);
  EXPECT_FALSE(read_module_image("\x7f"
                                 "EL")
                   .is_sound);
  // A wrapper holds an address, which would be the executor's.
  std::string wrapper(24, '\0');
  const uint32_t magic = 0x466243b1;
  std::memcpy(wrapper.data(), &magic, sizeof(magic));
  EXPECT_FALSE(read_module_image(wrapper).is_sound);
}

}  // namespace
}  // namespace lambent::forward_server
