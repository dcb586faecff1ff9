#include "gpu/cuda_abi/driver_versions.h"

#include <gtest/gtest.h>

namespace lambent {
namespace {

bool g_known = false;

TEST(DriverVersions, TheNewestNameThatTheVersionKnowsIsTheAnswer) {
  EXPECT_STREQ(find_driver_symbol("cuMemAlloc", 3000, false, &g_known), "cuMemAlloc");
  EXPECT_STREQ(find_driver_symbol("cuMemAlloc", 13000, false, &g_known), "cuMemAlloc_v2");
  EXPECT_TRUE(g_known);
}

TEST(DriverVersions, TheVariantForThreadsIsTheAnswerWhereItIsAskedForAndThereIsOne) {
  EXPECT_STREQ(find_driver_symbol("cuMemcpyHtoD", 13000, true, &g_known), "cuMemcpyHtoD_v2_ptds");
  EXPECT_STREQ(find_driver_symbol("cuMemcpyHtoD", 13000, false, &g_known), "cuMemcpyHtoD_v2");
  EXPECT_STREQ(find_driver_symbol("cuMemAlloc", 13000, true, &g_known), "cuMemAlloc_v2");
}

// As NVIDIA's driver 535 answers.
TEST(DriverVersions, BeforeCuda7NoVariantForThreadsIsTheAnswerWhereThereAreSome) {
  EXPECT_EQ(find_driver_symbol("cuMemcpyHtoD", 6050, true, &g_known), nullptr);
  EXPECT_TRUE(g_known);
  EXPECT_STREQ(find_driver_symbol("cuMemcpyHtoD", 6050, false, &g_known), "cuMemcpyHtoD_v2");
  EXPECT_STREQ(find_driver_symbol("cuInit", 6050, true, &g_known), "cuInit");
}

TEST(DriverVersions, ANegativeVersionIsNewerThanAll) {
  EXPECT_STREQ(find_driver_symbol("cuMemcpyHtoD", -1, false, &g_known), "cuMemcpyHtoD_v2");
}

TEST(DriverVersions, ANameOfALaterVersionIsKnownAndHasNoAnswer) {
  EXPECT_EQ(find_driver_symbol("cuGreenCtxCreate", 11000, false, &g_known), nullptr);
  EXPECT_TRUE(g_known);
  EXPECT_EQ(find_driver_symbol("cuNothingOfTheKind", 13000, false, &g_known), nullptr);
  EXPECT_FALSE(g_known);
}

}  // namespace
}  // namespace lambent
