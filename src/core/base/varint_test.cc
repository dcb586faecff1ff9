#include "core/base/varint.h"

#include <gtest/gtest.h>

#include "core/base/random.h"

namespace lambent {
namespace {

std::string one_group_at_a_time(uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes.push_back(static_cast<char>(number | 0x80));
  bytes.push_back(static_cast<char>(number));
  return bytes;
}

void expect_there_and_back(uint64_t number) {
  std::string bytes;
  append_varint(bytes, number);
  ASSERT_EQ(bytes, one_group_at_a_time(number)) << number;
  std::string_view rest = bytes;
  uint64_t read = 0;
  ASSERT_TRUE(take_varint(rest, read)) << number;
  EXPECT_EQ(read, number);
  EXPECT_TRUE(rest.empty()) << number;
}

TEST(Varint, IsSevenBitsAByteLeastFirstWhateverTheLength) {
  SeededRandom random(9);
  for (int bits = 0; bits < 64; ++bits) {
    const uint64_t power = uint64_t{1} << bits;
    expect_there_and_back(power - 1);
    expect_there_and_back(power);
    for (int i = 0; i < 100; ++i) expect_there_and_back(random.next() & (power - 1));
  }
  expect_there_and_back(~uint64_t{0});
}

TEST(Varint, ThatIsCutShortIsNoNumber) {
  std::string bytes;
  append_varint(bytes, 1'000'000);
  for (size_t size = 0; size < bytes.size(); ++size) {
    std::string_view cut = std::string_view(bytes).substr(0, size);
    uint64_t read = 0;
    EXPECT_FALSE(take_varint(cut, read));
  }
}

}  // namespace
}  // namespace lambent
