#include "edge/frontend/metrics_of_tenant.h"

#include <gtest/gtest.h>

namespace lambent::frontend {
namespace {

constexpr std::string_view kText =
    "# HELP a Things\n"
    "# TYPE a counter\n"
    "a{function=\"f\",tenant=\"1\"} 2\n"
    "a{function=\"g\",tenant=\"2\"} 3\n"
    "# HELP b Of the node\n"
    "# TYPE b gauge\n"
    "b 4\n"
    "# HELP c Others\n"
    "# TYPE c gauge\n"
    "c{tenant=\"12\",function=\"x,tenant=\\\"1\\\"\"} 5\n"
    "c{function=\"h\",tenant=\"1\"} 6";

TEST(MetricsOfTenantTest, OnlyItsOwnSeriesAreLeft) {
  EXPECT_EQ(metrics_of(kText, TenantId(1)),
            "# HELP a Things\n# TYPE a counter\na{function=\"f\",tenant=\"1\"} 2\n"
            "# HELP c Others\n# TYPE c gauge\nc{function=\"h\",tenant=\"1\"} 6");
  EXPECT_EQ(metrics_of(kText, TenantId(2)),
            "# HELP a Things\n# TYPE a counter\na{function=\"g\",tenant=\"2\"} 3\n");
}

TEST(MetricsOfTenantTest, ATenantWithoutSeriesSeesNothing) {
  EXPECT_EQ(metrics_of(kText, TenantId(3)), "");
  EXPECT_EQ(metrics_of("", TenantId(1)), "");
}

}  // namespace
}  // namespace lambent::frontend
