#include "core/domain/closed_addresses.h"

#include <gtest/gtest.h>

namespace lambent {
namespace {

bool is_never_meant(const char* address) {
  const auto closed = closed_address(*parse_ip_address(address));
  return closed && closed->is_never_meant;
}

TEST(ClosedAddresses, OfMetadataServicesAndLinksAreNeverMeant) {
  for (const char* address :
       {"169.254.169.254", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254",
        "169.254.1.2", "fe80::1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"}) {
    EXPECT_TRUE(is_never_meant(address)) << address;
  }
}

TEST(ClosedAddresses, OfPrivateNetworksMayBe) {
  for (const char* address : {"10.0.0.1", "127.0.0.1", "::1", "fd00::1", "100.64.0.1"}) {
    EXPECT_TRUE(closed_address(*parse_ip_address(address))) << address;
    EXPECT_FALSE(is_never_meant(address)) << address;
  }
  EXPECT_FALSE(closed_address(*parse_ip_address("8.8.8.8")));
}

TEST(ClosedAddresses, OfARangeAreThoseThatAreInIt) {
  EXPECT_EQ(closed_within(*parse_ip_range("10.1.0.0/16"))->why, "a private range");
  EXPECT_EQ(closed_within(*parse_ip_range("8.0.0.0/5"))->why, "a private range");
  EXPECT_FALSE(closed_within(*parse_ip_range("8.8.8.0/24")));
}

}  // namespace
}  // namespace lambent
