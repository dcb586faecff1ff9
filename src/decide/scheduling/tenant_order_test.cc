#include "decide/scheduling/tenant_order.h"

#include <gtest/gtest.h>

#include <string>

namespace lambent::scheduling {
namespace {

using Slots = std::vector<uint32_t>;

class TenantOrders : public testing::Test {
 protected:
  TenantOrders() {
    order_.grow(3);
    for (uint32_t slot = 0; slot < 3; ++slot) {
      order_.set_working(slot, true);
      order_.set_waiting(slot, true);
    }
  }

  TenantOrder order_{seconds(10)};
};

TEST_F(TenantOrders, PutTheOneLeastChargedFirstAndOfEqualsTheLowerSlot) {
  EXPECT_EQ(order_.waiting(), (Slots{0, 1, 2}));
  order_.charge(0, seconds(2));
  order_.charge(1, seconds(1));
  EXPECT_EQ(order_.waiting(), (Slots{2, 1, 0}));
  order_.charge(2, seconds(1));
  EXPECT_EQ(order_.waiting(), (Slots{1, 2, 0}));
  order_.set_waiting(1, false);
  EXPECT_EQ(order_.waiting(), (Slots{2, 0}));
  order_.set_waiting(1, true);
  EXPECT_EQ(order_.waiting(), (Slots{1, 2, 0}));
}

TEST_F(TenantOrders, KeepGlobalVirtualTimeAtTheLeastOfThoseThatWork) {
  order_.charge(0, seconds(2));
  order_.charge(1, seconds(3));
  order_.advance();
  EXPECT_EQ(order_.global(), Duration(0));
  order_.set_working(2, false);
  order_.advance();
  EXPECT_EQ(order_.global(), seconds(2));
}

TEST_F(TenantOrders, PutOneThatComesBackAtGlobalVirtualTimeAndNeverBehindWhereItWas) {
  order_.set_working(2, false);
  order_.charge(0, seconds(5));
  order_.charge(1, seconds(8));
  order_.advance();
  order_.set_working(2, true);
  EXPECT_EQ(order_.virtual_time(2), seconds(5)) << "idle time earns no credit";
  EXPECT_EQ(order_.waiting(), (Slots{0, 2, 1}));
  order_.set_working(1, false);
  order_.set_working(1, true);
  EXPECT_EQ(order_.virtual_time(1), seconds(8));
}

TEST_F(TenantOrders, TellWhoIsMoreThanTheOverRunAhead) {
  order_.charge(1, seconds(10));
  EXPECT_FALSE(order_.is_ahead(1));
  order_.charge(1, Duration(1));
  EXPECT_TRUE(order_.is_ahead(1));
  EXPECT_FALSE(order_.is_ahead(77)) << "a tenant that nothing is known of";
}

TEST_F(TenantOrders, AreReadBackAsTheyWereWritten) {
  order_.charge(0, seconds(5));
  order_.charge(1, seconds(8));
  order_.set_working(2, false);
  order_.advance();
  std::string bytes;
  StateArchive to(&bytes);
  order_.archive(to);
  TenantOrder read(seconds(10));
  StateArchive from{std::string_view(bytes)};
  read.archive(from);
  ASSERT_TRUE(from.complete());
  EXPECT_EQ(read.global(), seconds(5));
  EXPECT_EQ(read.virtual_time(1), seconds(8));
  EXPECT_TRUE(read.waiting().empty()) << "that is told again";
  read.set_working(2, true);
  EXPECT_EQ(read.virtual_time(2), seconds(5));
}

}  // namespace
}  // namespace lambent::scheduling
