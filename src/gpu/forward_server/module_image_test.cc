#include "gpu/forward_server/module_image.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace lambent::forward_server {
namespace {

constexpr size_t kBody = 256;

struct Elf {
  Elf64_Ehdr header{};
  std::vector<Elf64_Shdr> sections;
  std::vector<Elf64_Phdr> segments;
  std::string names;

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
  // The sections after the first, in their order, are called so. The table, which is a section too,
  // is laid where the body begins.
  void call(const std::vector<std::string>& given) {
    names.assign(1, '\0');
    for (size_t i = 0; i < given.size(); ++i) {
      sections[i + 1].sh_name = static_cast<uint32_t>(names.size());
      names += given[i] + '\0';
    }
    header.e_shstrndx = static_cast<uint16_t>(sections.size());
    add(SHT_STRTAB, 0, sizeof(header), names.size());
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
    image += names;
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

// As ptxas writes them: what is shared among the threads of a block has the flags of a variable.
Elf with_shared_memory() {
  constexpr uint64_t kFlags = SHF_ALLOC | SHF_WRITE;
  Elf elf;
  elf.add(SHT_NULL, 0, 0, 0);
  elf.add(SHT_NOBITS, kFlags | SHF_INFO_LINK, 0, 48 << 10);
  elf.add(SHT_NOBITS, kFlags, 0, 1024);
  elf.add(SHT_NOBITS, kFlags, 0, 4000);
  elf.add(SHT_NOBITS, kFlags, 0, 300);
  elf.add(SHT_NOBITS, kFlags, 0, 20);
  elf.add(SHT_NOBITS, kFlags, 0, 1);
  elf.call({".nv.shared.kernel", ".nv.shared.reserved.0", ".nv.global", ".nv.sharedness",
            ".nv.shar", ".nv.shared"});
  return elf;
}

TEST(ModuleImage, DoesNotCountSharedMemoryAsItsVariables) {
  const Elf elf = with_shared_memory();
  const ModuleImage found = read_module_image(elf.image());
  EXPECT_TRUE(found.is_sound);
  EXPECT_EQ(found.zeros.count, 4320u);
  // The first section says where the names are.
  Elf many = elf;
  many.sections[0].sh_link = many.header.e_shstrndx;
  many.header.e_shstrndx = SHN_XINDEX;
  EXPECT_EQ(read_module_image(many.image()).zeros.count, 4320u);
  // Without names all of it counts.
  Elf nameless = elf;
  nameless.header.e_shstrndx = SHN_UNDEF;
  for (auto& section : nameless.sections) section.sh_name = 0;
  EXPECT_EQ(read_module_image(nameless.image()).zeros.count, (48 << 10) + 1024 + 4321u);
}

TEST(ModuleImage, IsNotSoundIfItsSectionsNamesLieElsewhere) {
  const auto is_sound_with = [](const std::function<void(Elf&)>& change) {
    Elf elf = with_shared_memory();
    change(elf);
    return read_module_image(elf.image()).is_sound;
  };
  EXPECT_TRUE(is_sound_with([](Elf&) {}));
  EXPECT_FALSE(is_sound_with([](Elf& elf) { elf.header.e_shstrndx = 1000; }));
  EXPECT_FALSE(is_sound_with([](Elf& elf) {
    elf.header.e_shstrndx = SHN_XINDEX;
    elf.sections[0].sh_link = UINT32_MAX;
  }));
  EXPECT_FALSE(is_sound_with([](Elf& elf) { elf.sections.back().sh_offset = UINT64_MAX - 8; }));
  EXPECT_FALSE(is_sound_with([](Elf& elf) {
    elf.sections.back().sh_type = SHT_NOBITS;
    elf.sections.back().sh_size = 1 << 20;
  }));
  // The last name has no end.
  EXPECT_FALSE(is_sound_with([](Elf& elf) { --elf.sections.back().sh_size; }));
  for (const uint32_t beyond : {uint32_t{kBody}, UINT32_MAX}) {
    EXPECT_FALSE(is_sound_with([&](Elf& elf) { elf.sections[1].sh_name = beyond; }));
  }
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
