#include "sim/simulator/simulated_tenants.h"

#include <gtest/gtest.h>

namespace lambent::simulator {
namespace {

TEST(SimulatedTenants, AreReadWithTheirWeightQuotasAndFunctions) {
  const auto tenant = parse_tenant(
      "red,weight=2.5,concurrency=4,gpu-memory=8GiB,host-memory=512M,gpu-time=600,functions=a+b");
  ASSERT_TRUE(tenant.ok()) << to_string(tenant.error());
  EXPECT_EQ(tenant->name, "red");
  EXPECT_EQ(tenant->changed.weight, 2.5);
  EXPECT_EQ(tenant->changed.concurrency, 4u);
  EXPECT_EQ(tenant->changed.gpu_memory, Bytes::gib(8));
  EXPECT_EQ(tenant->changed.host_memory, Bytes::mib(512));
  EXPECT_EQ(tenant->changed.gpu_time_per_hour, seconds(600));
  EXPECT_EQ(tenant->functions, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(parse_tenant("blue")->changed.concurrency, std::nullopt);
}

TEST(SimulatedTenants, AreRefusedWithWhatIsWrong) {
  const auto error_of = [](const char* text) { return to_string(parse_tenant(text).error()); };
  EXPECT_NE(error_of("weight=3").find("begins with its name"), std::string::npos);
  EXPECT_NE(error_of("red,weight=0").find("'0' is no weight"), std::string::npos);
  EXPECT_NE(error_of("red,weight=nan").find("no weight"), std::string::npos);
  EXPECT_NE(error_of("red,concurrency=1.5").find("whole number"), std::string::npos);
  EXPECT_NE(error_of("red,gpu-time=-1").find("no gpu-time"), std::string::npos);
  EXPECT_NE(error_of("red,gpu-memory=much").find("tenant 'red'"), std::string::npos);
  EXPECT_NE(error_of("red,colour=3").find("'colour' is none of"), std::string::npos);
}

TEST(SimulatedTenants, HaveTheFunctionsThatTheyNameAndTheOthersInTurn) {
  std::vector<SimulatedTenant> tenants;
  for (const char* text : {"red", "blue,functions=c", "green"}) {
    tenants.push_back(parse_tenant(text).value());
  }
  const auto all = tenants_of({"a", "b", "c", "d"}, tenants);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(*all, (std::vector<size_t>{0, 2, 1, 0}));
  const auto error_of = [](const std::vector<std::string>& functions,
                           const std::vector<const char*>& texts) {
    std::vector<SimulatedTenant> tenants;
    for (const char* text : texts) tenants.push_back(parse_tenant(text).value());
    return to_string(tenants_of(functions, tenants).error());
  };
  EXPECT_NE(error_of({"a"}, {"red,functions=x"}).find("no function 'x'"), std::string::npos);
  EXPECT_NE(error_of({"a"}, {"red,functions=a", "blue,functions=a"}).find("two tenants"),
            std::string::npos);
  EXPECT_NE(error_of({"a", "b"}, {"red,functions=a"}).find("no tenant has the function 'b'"),
            std::string::npos);
}

}  // namespace
}  // namespace lambent::simulator
