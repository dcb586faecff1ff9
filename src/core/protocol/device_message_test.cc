#include "core/protocol/device_message.h"

#include <gtest/gtest.h>

namespace lambent::protocol {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

DevicesRead two_readings() {
  return {7,
          {{.index = 0,
            .busy_percent = 93,
            .memory_busy_percent = 12,
            .memory_used = Bytes::gib(3),
            .memory_total = Bytes::gib(16),
            .uncorrected_errors = 2,
            .repair = MemoryRepair::kPending},
           {.index = 1,
            .health = DeviceHealth::kLost,
            .knows_utilisation = false,
            .memory_total = Bytes::gib(16)}}};
}

DevicesFaulted two_faults() {
  return {{{0, 31, FaultGravity::kApplication, "GPU memory page fault"},
           {1016, 79, FaultGravity::kDevice, ""}}};
}

TEST(DeviceMessage, ComesBackAsItWas) {
  const DeviceMessage messages[] = {
      DevicesFound{
          {{0, "GPU-1", "Tiny", Bytes::gib(1)},
           {.index = 1, .uuid = "GPU-2", .memory_total = Bytes::gib(2), .integrated = true},
           {1016, "MIG-3", "Cut", Bytes::gib(10), "1g.10gb", 14, false, false, "0-15,64-79", 3, 7,
            0}}},
      two_readings(), two_faults(), DevicesUnavailable{"no driver"}};
  for (const DeviceMessage& message : messages) {
    const auto decoded = decode_device_message(bytes_of(encode(message)));
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(*decoded, message);
  }
}

TEST(DeviceMessage, IsRefusedWhenCutAnywhereOrLonger) {
  for (const std::string& whole : {encode(two_readings()), encode(two_faults())}) {
    for (size_t length = 0; length < whole.size(); ++length) {
      EXPECT_FALSE(decode_device_message(bytes_of(whole.substr(0, length))).ok()) << length;
    }
    EXPECT_FALSE(decode_device_message(bytes_of(whole + "x")).ok());
  }
}

TEST(DeviceMessage, IsRefusedInAnotherVersionOrOfAnUnknownKind) {
  std::string message = encode(two_readings());
  message[0] = 1;
  EXPECT_FALSE(decode_device_message(bytes_of(message)).ok());
  message = encode(two_readings());
  message[1] = 4;
  EXPECT_FALSE(decode_device_message(bytes_of(message)).ok());
}

TEST(DeviceMessage, IsRefusedWithAHealthAFlagAPercentageOrAGravityThatThereIsNot) {
  const std::string read = encode(two_readings());
  constexpr size_t kFirstReading = 1 + 1 + 1 + 1;    // version, kind, sequence, count
  constexpr size_t kErrors = 1 + 1 + 1 + 2 + 5 + 5;  // whether they are told, then how many
  for (const size_t offset :
       {size_t{1}, size_t{2}, size_t{3}, size_t{4}, kErrors, kErrors + 2, kErrors + 3}) {
    std::string changed = read;
    changed[kFirstReading + offset] = 101;
    EXPECT_FALSE(decode_device_message(bytes_of(changed)).ok()) << offset;
    changed[kFirstReading + offset] = 0;
    const bool counts = offset == kErrors || offset == kErrors + 2;  // what follows is then left
    EXPECT_EQ(decode_device_message(bytes_of(changed)).ok(), !counts) << offset;
  }
  std::string faulted = encode(two_faults());
  faulted[1 + 1 + 1 + 1 + 1] = 3;
  EXPECT_FALSE(decode_device_message(bytes_of(faulted)).ok());
}

TEST(DeviceMessage, APercentageAboveOneHundredIsSentAsOneHundred) {
  DevicesRead read = two_readings();
  read.readings[0].busy_percent = 101;
  const auto decoded = decode_device_message(bytes_of(encode(read)));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(std::get<DevicesRead>(*decoded).readings[0].busy_percent, 100);
}

TEST(DeviceMessage, AsManyFaultsAsTheLimitFitAndMoreAreCut) {
  DevicesFaulted faulted;
  faulted.faults.assign(kMostDeviceFaults + 1,
                        {1, 48, FaultGravity::kDevice, std::string(1000, 'w')});
  const std::string message = encode(faulted);
  EXPECT_LE(message.size(), kMostDeviceMessage);
  const auto decoded = decode_device_message(bytes_of(message));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(std::get<DevicesFaulted>(*decoded).faults.size(), kMostDeviceFaults);
}

TEST(DeviceMessage, AllMessagesOfTheLimitsFitAndMoreIsCut) {
  DevicesFound found;
  for (uint32_t i = 0; i < kMostDevices + 1; ++i) {
    found.devices.push_back({i, std::string(1000, 'u'), std::string(1000, 'n'), Bytes(1),
                             std::string(1000, 'p'), 1, true, true,
                             std::string(kMostCpuList, '1')});
  }
  const std::string message = encode(found);
  EXPECT_LE(message.size(), kMostDeviceMessage);
  const auto decoded = decode_device_message(bytes_of(message));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(std::get<DevicesFound>(*decoded).devices.size(), kMostDevices);
  EXPECT_EQ(std::get<DevicesFound>(*decoded).devices[0].uuid.size(), kMostDeviceText);
  EXPECT_EQ(std::get<DevicesFound>(*decoded).devices[0].near_cpus.size(), kMostCpuList);

  found.devices.resize(1);
  found.devices[0].near_cpus.push_back('2');
  const auto longer = decode_device_message(bytes_of(encode(found)));
  ASSERT_TRUE(longer.ok());
  EXPECT_EQ(std::get<DevicesFound>(*longer).devices[0].near_cpus, "");
}

}  // namespace
}  // namespace lambent::protocol
