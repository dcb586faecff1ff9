// A zip written by hand, entry by entry, with names and modes that no honest tool writes. Included
// by tests only.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

namespace lambent::archive {

class HandmadeZip {
 public:
  HandmadeZip& add(const std::string& name, const std::string& content,
                   mode_t mode = S_IFREG | 0644, uint16_t flags = 0) {
    const auto offset = static_cast<uint32_t>(zip_.size());
    const std::string common = u16(flags) + u16(0) + u32(0x00210000) + u32(crc_of(content)) +
                               u32(static_cast<uint32_t>(content.size())) +
                               u32(static_cast<uint32_t>(content.size())) +
                               u16(static_cast<uint16_t>(name.size())) + u16(0);
    zip_ += u32(0x04034b50) + u16(20) + common + name + content;
    directory_ += u32(0x02014b50) + u16(3 << 8 | 20) + u16(20) + common + u16(0) + u16(0) + u16(0) +
                  u32(static_cast<uint32_t>(mode) << 16) + u32(offset) + name;
    ++entries_;
    return *this;
  }

  std::string bytes() const {
    return zip_ + directory_ + u32(0x06054b50) + u16(0) + u16(0) + u16(entries_) + u16(entries_) +
           u32(static_cast<uint32_t>(directory_.size())) + u32(static_cast<uint32_t>(zip_.size())) +
           u16(0);
  }

 private:
  static std::string u16(uint32_t value) {
    return {static_cast<char>(value & 255), static_cast<char>(value >> 8 & 255)};
  }
  static std::string u32(uint32_t value) { return u16(value & 0xffff) + u16(value >> 16); }
  static uint32_t crc_of(const std::string& content) {
    uint32_t crc = 0xffffffff;
    for (const char c : content) {
      crc ^= static_cast<unsigned char>(c);
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320 : 0);
    }
    return ~crc;
  }

  std::string zip_;
  std::string directory_;
  uint16_t entries_ = 0;
};

}  // namespace lambent::archive
