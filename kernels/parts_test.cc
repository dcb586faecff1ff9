// Integers within a word, by themselves: the header is plain C++.
#include <gtest/gtest.h>

#include "include/lambent/host/simd.h"

namespace lambent {
namespace {

TEST(Parts, EachIsAddedForItself) {
  EXPECT_EQ(__vadd4(0x01ff7f80u, 0x01010101u), 0x02008081u);
  EXPECT_EQ(__vadd2(0x7fffffffu, 0x00010001u), 0x80000000u);
  EXPECT_EQ(__vsub4(0x00010203u, 0x01010101u), 0xff000102u);
  EXPECT_EQ(__vneg4(0x01ff8000u), 0xff018000u);
}

TEST(Parts, SaturatedOnesStayAtTheirEnds) {
  EXPECT_EQ(__vaddss4(0x7f80017fu, 0x01ff0101u), 0x7f80027fu);
  EXPECT_EQ(__vaddus4(0xfe010203u, 0x05010101u), 0xff020304u);
  EXPECT_EQ(__vsubus2(0x00010005u, 0x00020003u), 0x00000002u);
  EXPECT_EQ(__vabsss4(0x80ff0180u), 0x7f01017fu);
}

TEST(Parts, ComparisonsKnowSigns) {
  EXPECT_EQ(__vmaxs4(0x80017fffu, 0x00000000u), 0x00017f00u);
  EXPECT_EQ(__vmaxu4(0x80017fffu, 0x00000000u), 0x80017fffu);
  EXPECT_EQ(__vmins2(0x8000ffffu, 0x00010001u), 0x8000ffffu);
  EXPECT_EQ(__vcmpgts4(0x80017f00u, 0x00000000u), 0x00ffff00u);
  EXPECT_EQ(__vcmpgtu4(0x80017f00u, 0x00000000u), 0xffffff00u);
  EXPECT_EQ(__vseteq2(0x12345678u, 0x12340000u), 0x00010000u);
}

TEST(Parts, HalvesOfAveragesAreRoundedAwayFromZero) {
  EXPECT_EQ(__vavgu4(0x00010203u, 0x01020304u), 0x01020304u);
  // -1/2, -3/2, 0 and 1/2
  EXPECT_EQ(__vavgs4(0xfffe0000u, 0x00ff0001u), 0xfffe0001u);
  // -255/2, 127, -1 and -2
  EXPECT_EQ(__vavgs4(0x807ffffeu, 0x817ffffeu), 0x807ffffeu);
  EXPECT_EQ(__vavgs2(0xfffd0002u, 0x00000001u), 0xfffe0002u);
}

TEST(Parts, DistancesAreSummed) {
  EXPECT_EQ(__vabsdiffu4(0x00ff10f0u, 0xff0020e0u), 0xffff1010u);
  EXPECT_EQ(__vsadu4(0x00ff10f0u, 0xff0020e0u), 255u + 255 + 16 + 16);
  EXPECT_EQ(__vsads2(0xffff0001u, 0x00010000u), 3u);
}

TEST(Parts, TheLargestOfThree) {
  EXPECT_EQ(__vimax3_s32(-5, -7, -6), -5);
  EXPECT_EQ(__vimax3_s32_relu(-5, -7, -6), 0);
  EXPECT_EQ(__vimin3_u32(5, 7, 0xffffffffu), 5u);
  EXPECT_EQ(__viaddmax_s32(2, 3, 4), 5);
  EXPECT_EQ(__viaddmin_s32(2, 3, 4), 4);
}

}  // namespace
}  // namespace lambent
