// CRC-32C (Castagnoli), with the processor's instruction where there is one. Pure; any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace lambent::journal {

// Of `bytes` after those whose checksum is `before`.
uint32_t crc32c(std::string_view bytes, uint32_t before = 0);
// The same without the instruction; the reference of the test.
uint32_t crc32c_by_table(std::string_view bytes, uint32_t before = 0);

}  // namespace lambent::journal
