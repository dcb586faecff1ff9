#include "gpu/forward_client/image_size.h"

#include <elf.h>

#include <cstdint>
#include <cstring>

namespace lambent::forward_client {
namespace {

constexpr uint32_t kFatBinaryWrapperMagic = 0x466243b1;
constexpr uint32_t kFatBinaryMagic = 0xba55ed50;
constexpr uint16_t kCudaMachine = 190;
constexpr size_t kMostImageBytes = size_t{1} << 30;

struct FatBinaryWrapper {
  uint32_t magic, version;
  const void* image;
};
struct FatBinaryHeader {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;  // behind the header
};

// Where its tables end, which compilers put behind all else: only the header is read, for the rest
// of a damaged image may not be there.
size_t elf_bytes(const Elf64_Ehdr& header) {
  if (header.e_shoff == 0) return 0;
  if (header.e_shoff > kMostImageBytes || header.e_phoff > kMostImageBytes) return 0;
  const uint64_t sections = header.e_shoff + uint64_t{header.e_shnum} * header.e_shentsize;
  const uint64_t segments = header.e_phoff + uint64_t{header.e_phnum} * header.e_phentsize;
  const uint64_t end = sections > segments ? sections : segments;
  return end >= sizeof(header) && end <= kMostImageBytes ? end : 0;
}

}  // namespace

Image find_image(const void* image) {
  const auto* bytes = static_cast<const char*>(image);
  if (bytes[0] == '\0') return {};
  // PTX is text; it may begin with space or a comment.
  if (bytes[0] == '.' || std::strchr(" \t\r\n", bytes[0]) != nullptr ||
      (bytes[0] == '/' && (bytes[1] == '/' || bytes[1] == '*'))) {
    return {image, std::strlen(bytes), true};
  }
  uint32_t magic = 0;
  std::memcpy(&magic, bytes, sizeof(magic));
  if (magic == kFatBinaryWrapperMagic) {
    FatBinaryWrapper wrapper;
    std::memcpy(&wrapper, bytes, sizeof(wrapper));
    if (wrapper.image == nullptr) return {};
    image = wrapper.image;
    bytes = static_cast<const char*>(image);
    std::memcpy(&magic, bytes, sizeof(magic));
  }
  if (magic == kFatBinaryMagic) {
    FatBinaryHeader header;
    std::memcpy(&header, bytes, sizeof(header));
    if (header.bytes > kMostImageBytes) return {};
    return {image, header.header_bytes + header.bytes, true};
  }
  if (std::memcmp(bytes, ELFMAG, SELFMAG) == 0 && bytes[EI_CLASS] == ELFCLASS64) {
    Elf64_Ehdr header;
    std::memcpy(&header, bytes, sizeof(header));
    return {image, elf_bytes(header), header.e_machine == kCudaMachine};
  }
  return {};
}

}  // namespace lambent::forward_client
