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

TEST(MemoryMeter, TellsWhatIsUsedNowAlsoAfterAReset) {
  auto meter = MemoryMeter::make();
  ASSERT_TRUE(meter.ok());
  EXPECT_EQ(meter->now(), Bytes(0));
  meter->raise(Bytes(UINT64_MAX));
  EXPECT_EQ(meter->peak(), Bytes(UINT64_MAX));
  meter->raise(Bytes(5));
  EXPECT_EQ(meter->now(), Bytes(5));
  meter->reset();
  EXPECT_EQ(meter->now(), Bytes(5));
  EXPECT_EQ(meter->peak(), Bytes(0));
}

TEST(MemoryMeter, OfAFileOfItsOwnReadsWhatIsUsedNow) {
  auto peak = MemoryMeter::make();
  auto usage = MemoryMeter::make();
  ASSERT_TRUE(peak.ok() && usage.ok());
  const std::string_view text = "12345\n";
  ASSERT_EQ(pwrite(usage->file().get(), text.data(), text.size(), 0),
            static_cast<ssize_t>(text.size()));
  auto usage_files = std::move(*usage).release();
  ASSERT_EQ(usage_files.size(), 1U);
  MemoryMeter both(std::move(std::move(*peak).release()[0]), std::move(usage_files[0]));
  EXPECT_EQ(both.now(), Bytes(12345));
  EXPECT_EQ(both.peak(), Bytes(0));
  EXPECT_EQ(std::move(both).release().size(), 2U);
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
