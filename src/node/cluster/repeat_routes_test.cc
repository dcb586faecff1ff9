#include "node/cluster/repeat_routes.h"

#include <gtest/gtest.h>

namespace lambent::cluster {
namespace {

TEST(RepeatRoutesTest, TheLastNodeOfAKeyIsFoundAndNoKeyIsNone) {
  RepeatRoutes routes;
  routes.remember("", "a");
  EXPECT_EQ(routes.find(""), nullptr);
  routes.remember("k", "a");
  routes.remember("k", "b");
  ASSERT_NE(routes.find("k"), nullptr);
  EXPECT_EQ(*routes.find("k"), "b");
}

TEST(RepeatRoutesTest, TheOldestIsForgottenWhereThereAreTooMany) {
  RepeatRoutes routes;
  for (size_t each = 0; each <= kMostRepeatRoutes; ++each) {
    routes.remember(std::to_string(each), "a");
  }
  EXPECT_EQ(routes.find("0"), nullptr);
  EXPECT_NE(routes.find("1"), nullptr);
}

}  // namespace
}  // namespace lambent::cluster
