#include "node/environments/build_order.h"

#include <gtest/gtest.h>

namespace lambent::environments {
namespace {

TEST(BuildOrderTest, OrdersAndReportsAreReadAsTheyWereWritten) {
  const BuildOrder order{.folder = "/s/environments",
                         .key = "ab",
                         .uv = "/usr/bin/uv",
                         .python = "/usr/bin/python3.11",
                         .index = "https://u:p@x/simple",
                         .files = {"https://files.x", "http://y:81"},
                         .wheels = "/w",
                         .offline = true,
                         .locked = true,
                         .requirements = {"numpy==1", "b"},
                         .variables = {"HTTPS_PROXY=http://p"},
                         .most = Bytes::gib(3),
                         .timeout = seconds(90)};
  const auto order_again = parse_build_order(to_json(order));
  ASSERT_TRUE(order_again.ok());
  EXPECT_EQ(*order_again, order);
  const BuildReport report{.size = Bytes(5), .cache = Bytes(6), .packages = {"numpy==1"}};
  const auto report_again = parse_build_report(to_json(report));
  ASSERT_TRUE(report_again.ok());
  EXPECT_EQ(*report_again, report);
}

TEST(BuildOrderTest, WhatIsNoneIsRefused) {
  for (const char* bad : {"", "[]", "{}", "{\"folder\": 1}",
                          "{\"bytes\": -1, \"cache_bytes\": 0, "
                          "\"packages\": []}"}) {
    EXPECT_FALSE(parse_build_order(bad).ok());
    EXPECT_FALSE(parse_build_report(bad).ok());
  }
}

}  // namespace
}  // namespace lambent::environments
