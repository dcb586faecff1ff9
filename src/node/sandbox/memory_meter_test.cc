#include "node/sandbox/memory_meter.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace lambent::sandbox {
namespace {

TEST(MemoryMeter, KeepsTheHighestValueUntilItIsReset) {
  auto meter = MemoryMeter::make();
  ASSERT_TRUE(meter.ok());
  EXPECT_EQ(meter->peak(), Bytes(0));
  meter->raise(Bytes(123'456));
  meter->raise(Bytes(99));
  EXPECT_EQ(meter->peak(), Bytes(123'456));
  meter->reset();
  EXPECT_EQ(meter->peak(), Bytes(0));
  meter->raise(Bytes(7));
  EXPECT_EQ(meter->peak(), Bytes(7)) << "no digit of the longer number is left";
}

TEST(MemoryMeter, ReadsNothingFromWhatIsNoNumber) {
  EXPECT_EQ(MemoryMeter().peak(), Bytes(0));
  MemoryMeter().reset();
  auto meter = MemoryMeter::make();
  ASSERT_TRUE(meter.ok());
  const std::string_view nonsense = "ninety nine thousand bytes of memory";
  ASSERT_EQ(pwrite(meter->file().get(), nonsense.data(), nonsense.size(), 0),
            static_cast<ssize_t>(nonsense.size()));
  EXPECT_EQ(meter->peak(), Bytes(0));
}

}  // namespace
}  // namespace lambent::sandbox
