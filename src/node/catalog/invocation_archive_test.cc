#include "node/catalog/invocation_archive.h"

#include <gtest/gtest.h>

#include "core/base/state_archive.h"

namespace lambent::catalog {
namespace {

InvocationResult sample() {
  InvocationResult result{.outcome = Outcome::kSucceeded, .payload = "42"};
  result.device = DeviceId(1);
  result.version = "3";
  return result;
}

TEST(InvocationArchiveTest, AResultOfSeveralDevicesHasNoByteThatProgramsBeforeCannotRead) {
  InvocationResult several = sample();
  several.beside = {DeviceId(2), DeviceId(64)};
  EXPECT_EQ(bytes_of_result(several), bytes_of_result(sample()));
}

TEST(InvocationArchiveTest, DevicesThatAProgramWroteIntoAResultAreRead) {
  std::string devices;
  StateArchive archive(&devices);
  std::vector<DeviceId> beside{DeviceId(2), DeviceId(3)};
  archive.list(beside);
  const auto read = read_result(bytes_of_result(sample()) + devices);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->beside, beside);
  EXPECT_EQ(read->payload, "42");
}

TEST(InvocationArchiveTest, WhatIsCutOffOrHasMoreIsDamaged) {
  const std::string whole = bytes_of_result(sample());
  for (const std::string& bytes : {whole.substr(0, whole.size() - 1), whole + "x"}) {
    const auto read = read_result(bytes);
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().code, ErrorCode::kDataLoss);
  }
}

TEST(InvocationArchiveTest, DevicesAreBits) {
  const std::vector<DeviceId> devices{DeviceId(1), DeviceId(7), DeviceId(64)};
  EXPECT_EQ(devices_of(bits_of(devices)), devices);
  EXPECT_EQ(bits_of({}), 0U);
}

}  // namespace
}  // namespace lambent::catalog
