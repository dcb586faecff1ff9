#include "core/portability/newer_libc.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace {

TEST(NewerLibcTest, NumbersDiffer) {
  std::set<uint32_t> numbers;
  for (int i = 0; i < 64; ++i) numbers.insert(arc4random());
  EXPECT_GT(numbers.size(), 60U);
}

// getrandom gives at most 32 MiB at a time, and a signal may end a call of more than 256 bytes
// early.
TEST(NewerLibcTest, EveryPartOfALargeBufferIsFilledAndNothingBehindIt) {
  constexpr size_t kSize = (33U << 20) + 5;
  std::vector<unsigned char> buffer(kSize + 8);
  arc4random_buf(buffer.data(), kSize);
  for (const size_t start : {size_t{0}, size_t{32U << 20}, kSize - 64}) {
    const auto from = buffer.begin() + static_cast<ptrdiff_t>(start);
    EXPECT_TRUE(std::any_of(from, from + 64, [](unsigned char each) { return each != 0; }))
        << start;
  }
  EXPECT_TRUE(
      std::all_of(buffer.end() - 8, buffer.end(), [](unsigned char each) { return each == 0; }));
}

// Another library of the process keeps those of its own C library.
TEST(NewerLibcTest, OursAreNotSeenFromOutside) {
  void* const found = dlsym(RTLD_DEFAULT, "arc4random");
  EXPECT_NE(found, reinterpret_cast<void*>(&arc4random));
}

}  // namespace
