#include "protocol/device_message.h"

#include <gtest/gtest.h>

namespace lambent::protocol {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

DevicesRead two_readings() {
  return {7,
          {{0, DeviceHealth::kHealthy, 93, 12, Bytes::gib(3), Bytes::gib(16)},
           {1, DeviceHealth::kLost, 0, 0, Bytes(0), Bytes::gib(16)}}};
}

TEST(DeviceMessage, ComesBackAsItWas) {
  const DeviceMessage messages[] = {
      DevicesFound{{{0, "GPU-1", "Tiny", Bytes::gib(1)},
                    {1, "GPU-2", "", Bytes::gib(2)},
                    {1016, "MIG-3", "Cut", Bytes::gib(10), "1g.10gb", 14}}},
      two_readings(), DevicesUnavailable{"no driver"}};
  for (const DeviceMessage& message : messages) {
    const auto decoded = decode_device_message(bytes_of(encode(message)));
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(*decoded, message);
  }
}

TEST(DeviceMessage, IsRefusedWhenCutAnywhereOrLonger) {
  const std::string whole = encode(two_readings());
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(decode_device_message(bytes_of(whole.substr(0, length))).ok()) << length;
  }
  EXPECT_FALSE(decode_device_message(bytes_of(whole + "x")).ok());
}

TEST(DeviceMessage, IsRefusedInAnotherVersionOrOfAnUnknownKind) {
  std::string message = encode(two_readings());
  message[0] = 1;
  EXPECT_FALSE(decode_device_message(bytes_of(message)).ok());
  message = encode(two_readings());
  message[4] = 9;
  EXPECT_FALSE(decode_device_message(bytes_of(message)).ok());
}

TEST(DeviceMessage, AllMessagesOfTheLimitsFitAndMoreIsCut) {
  DevicesFound found;
  for (uint32_t i = 0; i < kMostDevices + 1; ++i) {
    found.devices.push_back(
        {i, std::string(1000, 'u'), std::string(1000, 'n'), Bytes(1), std::string(1000, 'p'), 1});
  }
  const std::string message = encode(found);
  EXPECT_LE(message.size(), kMostDeviceMessage);
  const auto decoded = decode_device_message(bytes_of(message));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(std::get<DevicesFound>(*decoded).devices.size(), kMostDevices);
  EXPECT_EQ(std::get<DevicesFound>(*decoded).devices[0].uuid.size(), kMostDeviceText);
}

}  // namespace
}  // namespace lambent::protocol
