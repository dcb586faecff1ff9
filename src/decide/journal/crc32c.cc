#include "decide/journal/crc32c.h"

#include <array>
#include <cstring>

namespace lambent::journal {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // 0x1edc6f41, the other way round

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t word = i;
    for (int bit = 0; bit < 8; ++bit) word = (word >> 1) ^ (word & 1 ? kPolynomial : 0);
    table[i] = word;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t crc32c_by_instruction(std::string_view bytes,
                                                                 uint32_t before) {
  uint64_t sum = ~before;
  while (bytes.size() >= sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof(word));
    sum = __builtin_ia32_crc32di(sum, word);
    bytes.remove_prefix(sizeof(word));
  }
  auto narrow = static_cast<uint32_t>(sum);
  for (const char byte : bytes) narrow = __builtin_ia32_crc32qi(narrow, static_cast<uint8_t>(byte));
  return ~narrow;
}
#endif

}  // namespace

uint32_t crc32c_by_table(std::string_view bytes, uint32_t before) {
  uint32_t sum = ~before;
  for (const char byte : bytes)
    sum = (sum >> 8) ^ kTable[(sum ^ static_cast<uint8_t>(byte)) & 0xff];
  return ~sum;
}

uint32_t crc32c(std::string_view bytes, uint32_t before) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return crc32c_by_instruction(bytes, before);
#endif
  return crc32c_by_table(bytes, before);
}

}  // namespace lambent::journal
